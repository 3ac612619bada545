// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/detail/argument_checks.hpp>
#include <raytrain/collective/detail/reduce.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/signs_of_life.hpp>

namespace raytrain {

namespace detail {

template <class T>
inline constexpr bool is_span = false;
template <class T, std::size_t extent>
inline constexpr bool is_span<std::span<T, extent>> = true;

/// An array of elements that knows its size, and is no span: a std::vector, a std::array, a Buffer.
template <class R>
concept Array = MutableElementArray<R> && !is_span<std::remove_cvref_t<R>>;

}  // namespace detail

/// How one worker exchanges arrays with the others of its world. In the place of each span there may be an array that
/// knows its size: a std::vector, a std::array, a Buffer.
///
/// A model derives from it and performs a `Task` in `start`. What the compiler cannot check, every model promises:
///  - an operation is over when this worker may use its arrays again, and values are combined in rank order, so that
///    equal inputs give equal bits, unless its `Reduction` allows for another one; those of `Float16` and `BFloat16` in
///    float, rounded once at the end;
///  - ranks that call different operations, or with another size, type, op, root or counts, all get the same
///    `Error{Errc::rank_mismatch}`, which names both sides; after it every call fails;
///  - an array that cannot be right by itself is `Error{Errc::invalid_call}` on that rank, and nothing has happened;
///  - a call throws `Stopped` when the run is aborted, `Error{Errc::rank_mismatch}` when it would wait for a worker
///    that has ended, and `Error{Errc::timed_out}` when it has waited as long as its `WaitLimits` say, if it has any;
///  - `stop_agreed` changes only within an operation, and then on every rank in the same one.
/// `testing/collective_conformance.hpp` tries a model for that.
///
/// Threads: one worker's thread; the others have collectives of their own.
/// Errors:  every operation: as above, `invalid_call` for a null array with a size, for one in a GPU's memory unless
///          the model says that it takes those, or for what the operation names. After `invalid_call` the collective
///          stays usable.
class Collective {
 public:
  using Operation = detail::Operation;
  using Call = detail::Call;
  using Task = detail::Task;
  using Pending = detail::Pending;

  virtual ~Collective() = default;

  /// Fixed from construction on.
  [[nodiscard]] virtual auto rank() const noexcept -> Rank = 0;
  [[nodiscard]] virtual auto size() const noexcept -> WorldSize = 0;

  /// Whether somebody asked the run to stop, as all ranks know since their last common operation; in a world of one, as
  /// of now.
  [[nodiscard]] virtual auto stop_agreed() const noexcept -> bool = 0;

  /// Whether arrays are in the memory of the worker's GPU; otherwise they are in CPU memory.
  [[nodiscard]] virtual auto takes_device_arrays() const noexcept -> bool { return false; }

  /// Starts an operation whose arguments have been checked. A model without asynchronous operations completes it here
  /// and returns an empty `Pending`. All ranks start the same operations in the same order.
  [[nodiscard]] virtual auto start(Task const& task) -> Pending = 0;

  /// An array of `size` zeros, with which operations are fastest. Each rank allocates as it likes, without the others.
  ///
  /// Errors: `std::bad_alloc`.
  template <Element T>
  [[nodiscard]] auto allocate(std::size_t size) -> Buffer<T> {
    return {allocate_zeros(detail::array_bytes<T>(size)), size};
  }

  /// `allocate`, without a type.
  [[nodiscard]] virtual auto allocate_zeros(std::size_t size_bytes) -> std::shared_ptr<void> {
    return detail::allocate_pages(size_bytes);
  }

  /// A collective of the same ranks whose operations do not mix with this one's: for another thread of each worker. All
  /// ranks call it, as an operation. What the group of this one is told from outside, that of the duplicate is told
  /// too.
  ///
  /// Errors: `invalid_call` for a model that cannot be duplicated.
  [[nodiscard]] virtual auto duplicate() -> std::unique_ptr<Collective>;

  /// Returns when all ranks have called it.
  void barrier() { run({}); }

  /// Replaces every rank's `values` by their reduction, in rank order (r0 + r1 + r2 ...) unless the model's `Reduction`
  /// says otherwise: the same bits on every rank and on every run, but for which NaN a NaN is.
  template <Element T>
  void all_reduce(std::span<T> values, ReduceOp op) {
    Call const call{.operation = Operation::all_reduce, .element = element_type<T>, .op = op, .count = values.size()};
    check_array<T>(values, call, "values");
    perform_reduction<T>(call, values, values);
  }

  /// Replaces every rank's `values` by root's.
  ///
  /// Errors: `invalid_call` when there is no rank `root`.
  template <Element T>
  void broadcast(std::span<T> values, Rank root) {
    Call const call{
        .operation = Operation::broadcast, .element = element_type<T>, .root = root, .count = values.size()};
    check_array<T>(values, call, "values");
    checks(call).check_root(root);
    perform<T>(call, is(root) ? values : std::span<T>{}, values);
  }

  /// Fills `all` with every rank's `mine`, in rank order. `mine` is as long on every rank; it may be its own part of
  /// `all`, and otherwise lies outside.
  ///
  /// Errors: `invalid_call` unless `all` has world size times the elements of `mine`, and for any other overlap.
  template <Element T>
  void all_gather(std::span<std::type_identity_t<T> const> mine, std::span<T> all) {
    Call const call{.operation = Operation::all_gather, .element = element_type<T>, .count = mine.size()};
    check_parts<T>(mine, all, call);
    perform<T>(call, mine, all);
  }

  /// Reduces every rank's `all` as `all_reduce` does, of which this rank gets the part number `rank()` in `mine`.
  /// `mine` is as long on every rank; it may be that part of `all`, and otherwise lies outside.
  ///
  /// Errors: `invalid_call` unless `all` has world size times the elements of `mine`, and for any other overlap.
  template <Element T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> all, std::span<T> mine, ReduceOp op) {
    Call const call{.operation = Operation::reduce_scatter, .element = element_type<T>, .op = op, .count = mine.size()};
    check_parts<T>(mine, all, call);
    perform_reduction<T>(call, all, mine);
  }

  /// Replaces root's `values` by the reduction of all ranks'; in rank order it has the bits that `all_reduce` gives.
  /// The other ranks' stay as they are.
  ///
  /// Errors: `invalid_call` when there is no rank `root`.
  template <Element T>
  void reduce(std::span<T> values, ReduceOp op, Rank root) {
    Call const call{
        .operation = Operation::reduce, .element = element_type<T>, .op = op, .root = root, .count = values.size()};
    check_array<T>(values, call, "values");
    checks(call).check_root(root);
    perform_reduction<T>(call, values, is(root) ? values : std::span<T>{});
  }

  /// Fills root's `all` with every rank's `mine`, in rank order. `mine` is as long on every rank; on root it may be its
  /// own part of `all`, and otherwise lies outside. On the other ranks `all` is not looked at.
  ///
  /// Errors: `invalid_call` when there is no rank `root`; on root unless `all` has world size times the elements of
  ///         `mine`, and for any other overlap.
  template <Element T>
  void gather(std::span<std::type_identity_t<T> const> mine, std::span<T> all, Rank root) {
    Call const call{.operation = Operation::gather, .element = element_type<T>, .root = root, .count = mine.size()};
    checks(call).check_root(root);
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
    Call const call{.operation = Operation::scatter, .element = element_type<T>, .root = root, .count = mine.size()};
    checks(call).check_root(root);
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
    Call call{.operation = Operation::all_gatherv, .element = element_type<T>, .count = all.size()};
    checks(call).template check_counts<T>(mine, all, counts);
    check_memory(std::as_bytes(mine), call, "mine");
    check_memory(std::as_bytes(all), call, "all");
    call.counts_digest = detail::digest_of(counts);
    run({.call = call, .from = std::as_bytes(mine), .to = std::as_writable_bytes(all), .counts = counts});
  }

  template <detail::Array R>
  void all_reduce(R&& values, ReduceOp op) {
    all_reduce(detail::span_of(values), op);
  }
  template <detail::Array R>
  void broadcast(R&& values, Rank root) {
    broadcast(detail::span_of(values), root);
  }
  template <detail::Array R>
  void all_gather(std::span<ArrayElement<R> const> mine, R&& all) {
    all_gather(mine, detail::span_of(all));
  }
  template <detail::Array R>
  void reduce_scatter(std::span<ArrayElement<R> const> all, R&& mine, ReduceOp op) {
    reduce_scatter(all, detail::span_of(mine), op);
  }
  template <detail::Array R>
  void reduce(R&& values, ReduceOp op, Rank root) {
    reduce(detail::span_of(values), op, root);
  }
  template <detail::Array R>
  void gather(std::span<ArrayElement<R> const> mine, R&& all, Rank root) {
    gather(mine, detail::span_of(all), root);
  }
  template <detail::Array R>
  void scatter(std::span<ArrayElement<R> const> all, R&& mine, Rank root) {
    scatter(all, detail::span_of(mine), root);
  }
  template <detail::Array R>
  void all_gatherv(std::span<ArrayElement<R> const> mine, R&& all, std::span<std::size_t const> counts) {
    all_gatherv(mine, detail::span_of(all), counts);
  }

 protected:
  Collective() = default;
  Collective(Collective const&) = default;
  Collective(Collective&&) = default;
  auto operator=(Collective const&) -> Collective& = default;
  auto operator=(Collective&&) -> Collective& = default;

 private:
  void run(Task const& task) {
    start(task).wait();
    SignsOfLife::beat_here();
  }

  template <Element T>
  void perform(Call const& call, std::span<T const> from, std::span<T> to) {
    run({.call = call, .from = std::as_bytes(from), .to = std::as_writable_bytes(to)});
  }

  template <Element T>
  void perform_reduction(Call const& call, std::span<T const> from, std::span<T> to) {
    auto const& reducers = detail::Reducers::of<T>();
    run({.call = call, .from = std::as_bytes(from), .to = std::as_writable_bytes(to), .reducers = &reducers});
  }

  template <Element T>
  void check_array(std::span<T const> array, Call const& call, char const* name) {
    checks(call).template check_array<T>(array, name);
    check_memory(std::as_bytes(array), call, name);
  }

  template <Element T>
  void check_parts(std::span<T const> mine, std::span<T const> all, Call const& call) {
    checks(call).template check_parts<T>(mine, all);
    check_memory(std::as_bytes(mine), call, "mine");
    check_memory(std::as_bytes(all), call, "all");
  }

  void check_memory(std::span<std::byte const> array, Call const& call, char const* name) {
    if (takes_device_arrays()) return;
    if (device_memory_.is_on_device(array)) [[unlikely]]
      checks(call).refuse_device_memory(name);
  }

  [[nodiscard]] auto checks(Call const& call) const noexcept -> detail::ArgumentChecks {
    return {rank(), size(), call};
  }
  [[nodiscard]] auto is(Rank root) const noexcept -> bool { return rank() == root; }

  detail::DeviceMemoryQuery device_memory_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/collective-inl.hpp>
#endif
