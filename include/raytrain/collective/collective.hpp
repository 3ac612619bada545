// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/bfloat16.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain {

namespace detail {

struct Task;

}  // namespace detail

/// The operations of a `Collective` on arrays of `T`.
template <class C, class T>
concept CollectiveOn = requires(C& collective, std::span<T> values, std::span<T const> view, ReduceOp op, Rank root,
                                std::span<std::size_t const> counts) {
  /// In place; `values` is as long on every rank.
  { collective.all_reduce(values, op) } -> std::same_as<void>;

  /// Root's values, on every rank.
  { collective.broadcast(values, root) } -> std::same_as<void>;

  /// (mine, all): every rank's array, one after the other in rank order.
  { collective.all_gather(view, values) } -> std::same_as<void>;

  /// (all, mine): the rank's own part of the reduced array.
  { collective.reduce_scatter(view, values, op) } -> std::same_as<void>;

  /// In place on root; elsewhere `values`, as long on every rank, stays as it is.
  { collective.reduce(values, op, root) } -> std::same_as<void>;

  /// (mine, all, root): every rank's array, one after the other in rank order, on root; elsewhere `all` is ignored.
  { collective.gather(view, values, root) } -> std::same_as<void>;

  /// (all, mine, root): the rank's own part of root's array; elsewhere `all` is ignored.
  { collective.scatter(view, values, root) } -> std::same_as<void>;

  /// (mine, all, counts): as all_gather, where each rank sends as many elements as `counts` says, equal on every rank.
  { collective.all_gatherv(view, values, counts) } -> std::same_as<void>;
};

/// How one worker exchanges arrays with the others of its world.
///
/// What the compiler cannot check, every model promises:
///  - an operation returns when this worker may use its arrays again, and values are combined in rank order, so that
///    equal inputs give equal bits, unless its `Reduction` allows for another one; those of `Float16` and `BFloat16` in
///    float, rounded once at the end;
///  - ranks that call different operations, or with another size, type, op, root or counts, all get the same
///    `Error{Errc::rank_mismatch}`, which names both sides; after it every call fails;
///  - an array that cannot be right by itself is `Error{Errc::invalid_call}` on that rank, and nothing has happened;
///  - a call throws `Stopped` when the run is aborted, `Error{Errc::rank_mismatch}` when it would wait for a worker
///    that has ended, and `Error{Errc::timed_out}` when it has waited as long as its `WaitLimits` say, if it has any;
///  - `stop_agreed` changes only within an operation, and then on every rank in the same one.
///
/// Threads: one worker's thread; the others have models of their own.
template <class C>
concept Collective = std::movable<C> &&
    requires(C& collective, C const& view, std::size_t size, detail::Task const& task) {
  /// Fixed from construction on.
  { view.rank() }
  noexcept->std::same_as<Rank>;
  { view.size() }
  noexcept->std::same_as<WorldSize>;

  { collective.barrier() } -> std::same_as<void>;

  /// Whether somebody asked the run to stop, as all ranks know since their last common operation.
  { view.stop_agreed() }
  noexcept->std::same_as<bool>;

  /// Zeros, in memory with which operations are fastest.
  { collective.template allocate<std::uint8_t>(size) } -> std::same_as<Buffer<std::uint8_t>>;

  /// An operation whose arguments have been checked: what a worker's collective hands on. Of `detail::Operations`.
  { run_task(collective, task) } -> std::same_as<void>;

  requires CollectiveOn<C, float> && CollectiveOn<C, double>;
  requires CollectiveOn<C, std::int8_t> && CollectiveOn<C, std::int16_t>;
  requires CollectiveOn<C, std::int32_t> && CollectiveOn<C, std::int64_t>;
  requires CollectiveOn<C, std::uint8_t> && CollectiveOn<C, std::uint16_t>;
  requires CollectiveOn<C, std::uint32_t> && CollectiveOn<C, std::uint64_t>;
  requires CollectiveOn<C, Float16> && CollectiveOn<C, BFloat16>;
};

}  // namespace raytrain
