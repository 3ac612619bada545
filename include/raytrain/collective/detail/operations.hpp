// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include <raytrain/collective/detail/argument_checks.hpp>
#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/device_memory_query.hpp>
#include <raytrain/collective/detail/reduce.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// One rank's part in an operation: its arguments have been checked, the other ranks' have not. What the elements of
/// its arrays are, only `call` knows, so that what performs it is compiled once for all types.
struct Task {
  Call call;
  std::span<std::byte const> from{};      ///< What this rank gives; empty where it gives nothing.
  std::span<std::byte> to{};              ///< What it gets; the same memory as `from` where it is in place. Or empty.
  Reducers const* reducers = nullptr;     ///< Where arrays are combined.
  std::span<std::size_t const> counts{};  ///< For all_gatherv: elements that each rank gives.
};

template <class T>
inline constexpr bool is_span = false;
template <class T, std::size_t extent>
inline constexpr bool is_span<std::span<T, extent>> = true;

/// An array of elements that knows its size, and is no span: a std::vector, a std::array, a Buffer.
template <class A>
concept Array = !is_span<std::remove_const_t<A>> && requires(A & array) {
  requires Element<typename decltype(std::span{array})::element_type>;
};

template <Array A>
[[nodiscard]] constexpr auto span_of(A& array) noexcept {
  return std::span<typename decltype(std::span{array})::element_type>{array};
}
template <Array A>
using ElementOf = typename decltype(span_of(std::declval<A&>()))::element_type;

/// The operations of a `Collective`, for a model that has `rank()`, `size()`, `void run(Task const&)` and `barrier()`.
/// In the place of each span there may be an `Array`.
///
/// Errors: every operation: `rank_mismatch` as `Collective` says, `invalid_call` for a null array with a size, for one
/// in
///         a GPU's memory unless the model says that it takes those, or for what the operation names; the model stays
///         usable after the latter. `timed_out` as `WaitLimits` says. `Stopped` when the run is aborted.
template <class Model>
class Operations {
 public:
  /// Replaces every rank's `values` by their reduction, in rank order (r0 + r1 + r2 ...) unless the model's `Reduction`
  /// says otherwise: the same bits on every rank and on every run, but for which NaN a NaN is.
  template <Element T>
  void all_reduce(std::span<T> values, ReduceOp op) {
    auto const call = call_of<T>(Operation::all_reduce, values.size(), op);
    check_array<T>(values, call, "values");
    perform<T>(call, values, values, &Reducers::of<T>());
  }

  /// Replaces every rank's `values` by root's.
  ///
  /// Errors: `invalid_call` when there is no rank `root`.
  template <Element T>
  void broadcast(std::span<T> values, Rank root) {
    auto const call = call_of<T>(Operation::broadcast, values.size(), {}, root);
    check_array<T>(values, call, "values");
    checks().check_root(root, call);
    perform<T>(call, is(root) ? values : std::span<T>{}, values);
  }

  /// Fills `all` with every rank's `mine`, in rank order. `mine` is as long on every rank; it may be its own part of
  /// `all`, and otherwise lies outside.
  ///
  /// Errors: `invalid_call` unless `all` has world size times the elements of `mine`, and for any other overlap.
  template <Element T>
  void all_gather(std::span<std::type_identity_t<T> const> mine, std::span<T> all) {
    auto const call = call_of<T>(Operation::all_gather, mine.size());
    check_parts<T>(mine, all, call);
    perform<T>(call, mine, all);
  }

  /// Reduces every rank's `all` as `all_reduce` does, of which this rank gets the part number `rank()` in `mine`.
  /// `mine` is as long on every rank; it may be that part of `all`, and otherwise lies outside.
  ///
  /// Errors: `invalid_call` unless `all` has world size times the elements of `mine`, and for any other overlap.
  template <Element T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> all, std::span<T> mine, ReduceOp op) {
    auto const call = call_of<T>(Operation::reduce_scatter, mine.size(), op);
    check_parts<T>(mine, all, call);
    perform<T>(call, all, mine, &Reducers::of<T>());
  }

  /// Replaces root's `values` by the reduction of all ranks'; in rank order it has the bits that `all_reduce` gives.
  /// The other ranks' stay as they are.
  ///
  /// Errors: `invalid_call` when there is no rank `root`.
  template <Element T>
  void reduce(std::span<T> values, ReduceOp op, Rank root) {
    auto const call = call_of<T>(Operation::reduce, values.size(), op, root);
    check_array<T>(values, call, "values");
    checks().check_root(root, call);
    perform<T>(call, values, is(root) ? values : std::span<T>{}, &Reducers::of<T>());
  }

  /// Fills root's `all` with every rank's `mine`, in rank order. `mine` is as long on every rank; on root it may be its
  /// own part of `all`, and otherwise lies outside. On the other ranks `all` is not looked at.
  ///
  /// Errors: `invalid_call` when there is no rank `root`; on root unless `all` has world size times the elements of
  ///         `mine`, and for any other overlap.
  template <Element T>
  void gather(std::span<std::type_identity_t<T> const> mine, std::span<T> all, Rank root) {
    auto const call = call_of<T>(Operation::gather, mine.size(), {}, root);
    checks().check_root(root, call);
    if (is(root)) {
      check_parts<T>(mine, all, call);
    } else {
      check_array<T>(mine, call, "mine");
    }
    perform<T>(call, mine, is(root) ? all : std::span<T>{});
  }

  /// Fills `mine` with the part number `rank()` of root's `all`. `mine` is as long on every rank; on root it may be
  /// that part of `all`, and otherwise lies outside. On the other ranks `all` is not looked at.
  ///
  /// Errors: `invalid_call` when there is no rank `root`; on root unless `all` has world size times the elements of
  ///         `mine`, and for any other overlap.
  template <Element T>
  void scatter(std::span<std::type_identity_t<T> const> all, std::span<T> mine, Rank root) {
    auto const call = call_of<T>(Operation::scatter, mine.size(), {}, root);
    checks().check_root(root, call);
    if (is(root)) {
      check_parts<T>(mine, all, call);
    } else {
      check_array<T>(mine, call, "mine");
    }
    perform<T>(call, is(root) ? all : std::span<T const>{}, mine);
  }

  /// Fills `all` with every rank's `mine`, in rank order, of which rank r's has `counts[r]` elements: the same `counts`
  /// on every rank. `mine` may be its own part of `all`, and otherwise lies outside.
  ///
  /// Errors: `invalid_call` unless there is a count for each rank, `mine` has its own and `all` their sum, and for any
  ///         other overlap.
  template <Element T>
  void all_gatherv(std::span<std::type_identity_t<T> const> mine, std::span<T> all,
                   std::span<std::size_t const> counts) {
    auto call = call_of<T>(Operation::all_gatherv, all.size());
    checks().template check_counts<T>(mine, all, counts, call);
    check_memory(mine.data(), call, "mine");
    check_memory(all.data(), call, "all");
    call.counts_digest = digest_of(counts);
    perform<T>(call, mine, all, nullptr, counts);
  }

  template <Array A>
  void all_reduce(A& values, ReduceOp op) {
    all_reduce(span_of(values), op);
  }
  template <Array A>
  void broadcast(A& values, Rank root) {
    broadcast(span_of(values), root);
  }
  template <Array A>
  void all_gather(std::span<ElementOf<A> const> mine, A& all) {
    all_gather(mine, span_of(all));
  }
  template <Array A>
  void reduce_scatter(std::span<ElementOf<A> const> all, A& mine, ReduceOp op) {
    reduce_scatter(all, span_of(mine), op);
  }
  template <Array A>
  void reduce(A& values, ReduceOp op, Rank root) {
    reduce(span_of(values), op, root);
  }
  template <Array A>
  void gather(std::span<ElementOf<A> const> mine, A& all, Rank root) {
    gather(mine, span_of(all), root);
  }
  template <Array A>
  void scatter(std::span<ElementOf<A> const> all, A& mine, Rank root) {
    scatter(all, span_of(mine), root);
  }
  template <Array A>
  void all_gatherv(std::span<ElementOf<A> const> mine, A& all, std::span<std::size_t const> counts) {
    all_gatherv(mine, span_of(all), counts);
  }

 protected:
  ~Operations() = default;

 private:
  /// For a collective that hands its tasks on to this one.
  friend void run_task(Model& collective, Task const& task) { static_cast<Operations&>(collective).hand_on(task); }

  void hand_on(Task const& task) { model().run(task); }

  template <Element T>
  void perform(Call const& call, std::span<T const> from, std::span<T> to, Reducers const* reducers = nullptr,
               std::span<std::size_t const> counts = {}) {
    model().run({call, std::as_bytes(from), std::as_writable_bytes(to), reducers, counts});
  }

  template <Element T>
  static auto call_of(Operation operation, std::size_t count, ReduceOp op = {}, Rank root = {}) noexcept {
    return Call{operation, element_type<T>, op, root, count};
  }

  template <Element T>
  void check_array(std::span<T const> array, Call const& call, char const* name) {
    checks().template check_array<T>(array, call, name);
    check_memory(array.data(), call, name);
  }

  template <Element T>
  void check_parts(std::span<T const> mine, std::span<T const> all, Call const& call) {
    checks().template check_parts<T>(mine, all, call);
    check_memory(mine.data(), call, "mine");
    check_memory(all.data(), call, "all");
  }

  void check_memory(void const* array, Call const& call, char const* name) {
    if constexpr (requires { model().takes_device_arrays(); }) {
      if (model().takes_device_arrays()) return;
    }
    if (device_memory_.is_on_device(array)) [[unlikely]]
      checks().refuse_device_memory(call, name);
  }

  auto model() noexcept -> Model& { return static_cast<Model&>(*this); }
  [[nodiscard]] auto checks() const noexcept -> ArgumentChecks {
    auto const& self = static_cast<Model const&>(*this);
    return {self.rank(), self.size()};
  }
  [[nodiscard]] auto is(Rank root) const noexcept -> bool { return static_cast<Model const&>(*this).rank() == root; }

  DeviceMemoryQuery device_memory_;
};

}  // namespace raytrain::detail
