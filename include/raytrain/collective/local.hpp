// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/reduce.hpp>
#include <raytrain/collective/local_group.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain {

/// One worker's place in a `LocalGroup`: exchanges arrays with the group's other threads, in memory they all see.
///
/// Small arrays are copied into the group, which costs one wait for the others; with larger ones the ranks work on
/// each other's arrays and wait a second time, until all are done. An array belongs to one rank: ranks that pass the
/// same memory get nonsense.
///
/// Threads: one at a time, the worker's.
/// Errors:  every operation: `rank_mismatch` as `Collective` says, `invalid_call` for a null array with a size or what
///          the operation names; the group stays usable after the latter. `Stopped` after `LocalGroup::abort`.
class LocalCollective {
 public:
  /// Errors: `invalid_call` when there is no group, or no such rank in it.
  LocalCollective(std::shared_ptr<LocalGroup> group, Rank rank) : group_{std::move(group)}, rank_{rank} {
    if (group_ == nullptr) throw Error{Errc::invalid_call, "LocalCollective", "needs a group (got null)"};
    if (!is_rank(rank)) throw Error{Errc::invalid_call, "LocalCollective", "rank " + must_be_rank(rank)};
  }
  LocalCollective(LocalCollective&&) noexcept = default;
  auto operator=(LocalCollective&&) noexcept -> LocalCollective& = default;
  ~LocalCollective() = default;

  [[nodiscard]] auto rank() const noexcept -> Rank { return rank_; }
  [[nodiscard]] auto size() const noexcept -> WorldSize { return group_->size(); }

  /// Whether `LocalGroup::request_stop` was called, as of this rank's last operation; in a world of one, as of now.
  [[nodiscard]] auto stop_agreed() const noexcept -> bool { return group_->meeting_.stop_agreed(); }

  /// Returns when all ranks have called it.
  ///
  /// Cost: one wait, no bytes.
  void barrier() { group_->open(rank_, {}, 0); }

  /// Replaces every rank's `values` by their reduction in rank order (r0 + r1 + r2 ...): the same bits on every rank
  /// and on every run, but for which NaN a NaN is.
  ///
  /// Cost: a rank reads and writes sizeof(T) bytes an element; of a small array, it reads (world size + 1) and writes 2
  ///       elements for each.
  template <Element T>
  void all_reduce(std::span<T> values, ReduceOp op) {
    auto const call = call_of<T>(detail::Operation::all_reduce, values.size(), op);
    check_array<T>(values, call, "values");
    if (size() == WorldSize{1}) {
      group_->open(rank_, {call}, 0);
      return;
    }
    auto const ranks = group_->open(rank_, {call, std::as_bytes(values), values.data()}, values.size_bytes());
    detail::with_op(op, [&](auto constant) {
      if (group_->is_inline(values.size_bytes())) {
        reduce_into<constant()>(values, ranks, 0);
      } else {
        reduce_slice<constant(), T>(ranks, values.size());
      }
    });
    group_->close(values.size_bytes());
  }

  /// Replaces every rank's `values` by root's.
  ///
  /// Errors: `invalid_call` when there is no rank `root`.
  /// Cost:   a rank but root reads and writes sizeof(T) bytes an element.
  template <Element T>
  void broadcast(std::span<T> values, Rank root) {
    auto const call = call_of<T>(detail::Operation::broadcast, values.size(), {}, root);
    check_array<T>(values, call, "values");
    check_root(root, call);
    bool const is_root = rank_ == root;
    auto const ranks = group_->open(rank_, {call, is_root ? std::as_bytes(values) : nothing}, values.size_bytes());
    if (!is_root) copy(values.data(), source<T>(ranks[root.value]), values.size());
    group_->close(values.size_bytes());
  }

  /// Fills `all` with every rank's `mine`, in rank order. `mine` is as long on every rank; it may be its own part of
  /// `all`, and otherwise lies outside.
  ///
  /// Errors: `invalid_call` unless `all` has world size times the elements of `mine`, and for any other overlap.
  /// Cost:   a rank reads and writes world size * sizeof(T) bytes an element of `mine`.
  template <Element T>
  void all_gather(std::span<std::type_identity_t<T> const> mine, std::span<T> all) {
    auto const call = call_of<T>(detail::Operation::all_gather, mine.size());
    check_parts<T>(mine, all, call);
    auto const ranks = group_->open(rank_, {call, std::as_bytes(mine)}, mine.size_bytes());
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      copy_elsewhere(all.data() + rank * mine.size(), rank == rank_.value ? mine.data() : source<T>(ranks[rank]),
                     mine.size());
    }
    group_->close(mine.size_bytes());
  }

  /// Reduces every rank's `all` in rank order, of which this rank gets the part number `rank()` in `mine`. `mine` is as
  /// long on every rank; it may be that part of `all`, and otherwise lies outside.
  ///
  /// Errors: `invalid_call` unless `all` has world size times the elements of `mine`, and for any other overlap.
  /// Cost:   a rank reads world size * sizeof(T) bytes an element of `mine`, and writes sizeof(T).
  template <Element T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> all, std::span<T> mine, ReduceOp op) {
    auto const call = call_of<T>(detail::Operation::reduce_scatter, mine.size(), op);
    check_parts<T>(mine, all, call);
    auto const ranks = group_->open(rank_, {call, std::as_bytes(all)}, all.size_bytes());
    detail::with_op(op, [&](auto constant) { reduce_into<constant()>(mine, ranks, rank_.value * mine.size()); });
    group_->close(all.size_bytes());
  }

  /// Replaces root's `values` by the reduction of all ranks' in rank order, with the bits that `all_reduce` gives. The
  /// other ranks' stay as they are.
  ///
  /// Errors: `invalid_call` when there is no rank `root`.
  /// Cost:   a rank reads sizeof(T) bytes an element and writes sizeof(T) / world size; of a small array root reads
  ///         world size elements for each and writes it, and the others do nothing.
  template <Element T>
  void reduce(std::span<T> values, ReduceOp op, Rank root) {
    auto const call = call_of<T>(detail::Operation::reduce, values.size(), op, root);
    check_array<T>(values, call, "values");
    check_root(root, call);
    if (size() == WorldSize{1}) {
      group_->open(rank_, {call}, 0);
      return;
    }
    auto* const target = rank_ == root ? values.data() : nullptr;
    auto const ranks = group_->open(rank_, {call, std::as_bytes(values), target}, values.size_bytes());
    detail::with_op(op, [&](auto constant) {
      if (!group_->is_inline(values.size_bytes())) {
        auto const slice = slice_of<T>(values.size());
        auto* const result = static_cast<T*>(ranks[root.value].target) + slice.begin;
        reduce_into<constant()>(std::span{result, slice.size}, ranks, slice.begin);
      } else if (rank_ == root) {
        reduce_into<constant()>(values, ranks, 0);
      }
    });
    group_->close(values.size_bytes());
  }

  /// Fills root's `all` with every rank's `mine`, in rank order. `mine` is as long on every rank; on root it may be its
  /// own part of `all`, and otherwise lies outside. On the other ranks `all` is not looked at.
  ///
  /// Errors: `invalid_call` when there is no rank `root`; on root unless `all` has world size times the elements of
  ///         `mine`, and for any other overlap.
  /// Cost:   a rank reads and writes sizeof(T) bytes an element of `mine`; of small arrays root alone does, world size
  ///         times as many.
  template <Element T>
  void gather(std::span<std::type_identity_t<T> const> mine, std::span<T> all, Rank root) {
    auto const call = call_of<T>(detail::Operation::gather, mine.size(), {}, root);
    check_root(root, call);
    bool const is_root = rank_ == root;
    if (is_root) {
      check_parts<T>(mine, all, call);
    } else {
      check_array<T>(mine, call, "mine");
    }
    auto const ranks =
        group_->open(rank_, {call, std::as_bytes(mine), is_root ? all.data() : nullptr}, mine.size_bytes());
    if (!group_->is_inline(mine.size_bytes())) {
      copy_elsewhere(static_cast<T*>(ranks[root.value].target) + rank_.value * mine.size(), mine.data(), mine.size());
    } else if (is_root) {
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        copy(all.data() + rank * mine.size(), source<T>(ranks[rank]), mine.size());
      }
    }
    group_->close(mine.size_bytes());
  }

  /// Fills `mine` with the part number `rank()` of root's `all`. `mine` is as long on every rank; on root it may be
  /// that part of `all`, and otherwise lies outside. On the other ranks `all` is not looked at.
  ///
  /// Errors: `invalid_call` when there is no rank `root`; on root unless `all` has world size times the elements of
  ///         `mine`, and for any other overlap.
  /// Cost:   a rank reads and writes sizeof(T) bytes an element of `mine`.
  template <Element T>
  void scatter(std::span<std::type_identity_t<T> const> all, std::span<T> mine, Rank root) {
    auto const call = call_of<T>(detail::Operation::scatter, mine.size(), {}, root);
    check_root(root, call);
    bool const is_root = rank_ == root;
    if (is_root) {
      check_parts<T>(mine, all, call);
    } else {
      check_array<T>(mine, call, "mine");
    }
    auto const all_bytes = mine.size_bytes() * size().value;
    auto const ranks = group_->open(rank_, {call, is_root ? std::as_bytes(all) : nothing}, all_bytes);
    copy_elsewhere(mine.data(), source<T>(ranks[root.value]) + rank_.value * mine.size(), mine.size());
    group_->close(all_bytes);
  }

  /// Fills `all` with every rank's `mine`, in rank order, of which rank r's has `counts[r]` elements: the same `counts`
  /// on every rank. `mine` may be its own part of `all`, and otherwise lies outside.
  ///
  /// Errors: `invalid_call` unless there is a count for each rank, `mine` has its own and `all` their sum, and for any
  ///         other overlap.
  /// Cost:   a rank reads and writes sizeof(T) bytes an element of `all`.
  template <Element T>
  void all_gatherv(std::span<std::type_identity_t<T> const> mine, std::span<T> all,
                   std::span<std::size_t const> counts) {
    auto call = call_of<T>(detail::Operation::all_gatherv, all.size());
    check_counts<T>(mine, all, counts, call);
    call.counts_digest = detail::digest_of(counts);
    auto const largest_bytes = *std::ranges::max_element(counts) * sizeof(T);
    auto const ranks = group_->open(rank_, {call, std::as_bytes(mine), nullptr, counts.data()}, largest_bytes);
    auto* part = all.data();
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      copy_elsewhere(part, rank == rank_.value ? mine.data() : source<T>(ranks[rank]), counts[rank]);
      part += counts[rank];
    }
    group_->close(largest_bytes);
  }

 private:
  using Notice = LocalGroup::Notice;

  template <Element T>
  static auto call_of(detail::Operation operation, std::size_t count, ReduceOp op = {}, Rank root = {}) noexcept {
    return detail::Call{operation, element_type<T>, op, root, count};
  }

  static constexpr std::span<std::byte const> nothing{};

  template <Element T>
  static auto source(Notice const& notice) noexcept -> T const* {
    return reinterpret_cast<T const*>(notice.source.data());
  }

  template <Element T>
  static void copy(T* to, T const* from, std::size_t count) noexcept {
    if (count > 0) std::memcpy(to, from, count * sizeof(T));
  }

  /// Not where the array already is.
  template <Element T>
  static void copy_elsewhere(T* to, T const* from, std::size_t count) noexcept {
    if (to != from) copy(to, from, count);
  }

  struct Slice {
    std::size_t begin;
    std::size_t size;
  };

  /// What this rank works on of an array of all ranks: whole cache lines, so that no line is written by two ranks.
  template <Element T>
  [[nodiscard]] auto slice_of(std::size_t count) const noexcept -> Slice {
    constexpr auto line = detail::cache_line_bytes / sizeof(T);
    auto const lines = (count + line - 1) / line;
    auto const border = [&](std::size_t rank) { return std::min(lines * rank / size().value * line, count); };
    auto const begin = border(rank_.value);
    return {begin, border(rank_.value + std::size_t{1}) - begin};
  }

  /// The elements from `begin` on of all ranks' sources.
  template <ReduceOp op, Element T>
  void reduce_into(std::span<T> result, std::span<Notice const> ranks, std::size_t begin) const noexcept {
    detail::reduce_blocks<op, T>(
        size().value, result.size(), [&](std::uint32_t rank) { return source<T>(ranks[rank]) + begin; },
        [&](std::size_t at, T const* block, std::size_t bytes) { std::memcpy(result.data() + at, block, bytes); });
  }

  /// This rank's slice of all ranks' targets.
  template <ReduceOp op, Element T>
  void reduce_slice(std::span<Notice const> ranks, std::size_t count) const noexcept {
    auto const slice = slice_of<T>(count);
    auto const target = [&](std::uint32_t rank) { return static_cast<T*>(ranks[rank].target) + slice.begin; };
    if constexpr (detail::combines_in_itself<T>) {
      if (ranks.size() == 2) return detail::reduce_pair<op>(target(0), target(1), slice.size);
    }
    detail::reduce_blocks<op, T>(size().value, slice.size, target,
                                 [&](std::size_t at, T const* block, std::size_t bytes) {
                                   for (std::uint32_t rank = 0; rank < ranks.size(); ++rank)
                                     std::memcpy(target(rank) + at, block, bytes);
                                 });
  }

  [[nodiscard]] auto is_rank(Rank rank) const noexcept -> bool { return rank.value < size().value; }

  [[nodiscard]] auto must_be_rank(Rank rank) const -> std::string {
    return "must be below " + std::to_string(size().value) + " (got " + std::to_string(rank.value) + ")";
  }

  [[nodiscard]] auto attempted(detail::Call const& call) const -> std::string {
    return to_string(call) + " on rank " + std::to_string(rank_.value);
  }

  void check_root(Rank root, detail::Call const& call) const {
    if (!is_rank(root)) throw Error{Errc::invalid_call, attempted(call), "root " + must_be_rank(root)};
  }

  template <Element T>
  void check_array(std::span<T const> array, detail::Call const& call, char const* name) const {
    if (array.data() != nullptr || array.empty()) return;
    throw Error{Errc::invalid_call, attempted(call),
                std::string{name} + " must point to " + std::to_string(array.size()) + " elements (got null)"};
  }

  template <Element T>
  void check_parts(std::span<T const> mine, std::span<T const> all, detail::Call const& call) const {
    check_array(mine, call, "mine");
    check_array(all, call, "all");
    if (all.size() != mine.size() * size().value) {
      throw Error{Errc::invalid_call, attempted(call),
                  "all must have " + std::to_string(size().value) + " x " + std::to_string(mine.size()) +
                      " elements (got " + std::to_string(all.size()) + ")",
                  "give it room for the part of every rank"};
    }
    check_overlap(mine, all, rank_.value * mine.size(), call);
  }

  /// `begin`: where `mine` is in `all` if it lies there.
  template <Element T>
  void check_overlap(std::span<T const> mine, std::span<T const> all, std::size_t begin,
                     detail::Call const& call) const {
    std::less<> const before;
    bool const apart = !before(mine.data(), all.data() + all.size()) || !before(all.data(), mine.data() + mine.size());
    if (!apart && mine.data() != all.data() + begin) {
      throw Error{Errc::invalid_call, attempted(call),
                  "mine must lie outside of all, or be its part number " + std::to_string(rank_.value) +
                      " (got another overlap)"};
    }
  }

  template <Element T>
  void check_counts(std::span<T const> mine, std::span<T const> all, std::span<std::size_t const> counts,
                    detail::Call const& call) const {
    check_array(counts, call, "counts");
    check_array(mine, call, "mine");
    check_array(all, call, "all");
    auto const ranks = std::size_t{size().value};
    if (counts.size() != ranks) {
      throw Error{Errc::invalid_call, attempted(call),
                  "counts must have " + std::to_string(ranks) + " elements, one for each rank (got " +
                      std::to_string(counts.size()) + ")"};
    }
    auto const own = counts[rank_.value];
    if (mine.size() != own) {
      throw Error{Errc::invalid_call, attempted(call),
                  "mine must have counts[" + std::to_string(rank_.value) + "] = " + std::to_string(own) +
                      " elements (got " + std::to_string(mine.size()) + ")"};
    }
    // A sum beyond all numbers stays the largest of them, which no array has as many elements as.
    auto const add = [](std::size_t sofar, std::size_t count) {
      return count > ~std::size_t{0} - sofar ? ~std::size_t{0} : sofar + count;
    };
    auto const sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0}, add);
    if (all.size() != sum) {
      throw Error{Errc::invalid_call, attempted(call),
                  "all must have as many elements as the counts add up to, " + std::to_string(sum) + " (got " +
                      std::to_string(all.size()) + ")"};
    }
    check_overlap(mine, all, std::accumulate(counts.begin(), counts.begin() + rank_.value, std::size_t{0}), call);
  }

  std::shared_ptr<LocalGroup> group_;
  Rank rank_;
};

static_assert(Collective<LocalCollective>);

}  // namespace raytrain
