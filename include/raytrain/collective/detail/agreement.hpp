// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <raytrain/collective/detail/task.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// What a rank calls; `counts` are those of all_gatherv by rank, or empty.
struct RankCall {
  Rank rank;
  Call call;
  std::span<std::size_t const> counts{};
};

/// The call, with that of the counts in which it differs from the other call.
[[nodiscard]] auto describe(RankCall const& mine, RankCall const& other) -> std::string;

/// What all ranks are told when `other` is the first call that differs from `first`.
[[nodiscard]] auto mismatch_error(RankCall const& first, RankCall const& other) -> Error;

/// What all ranks are told whose groups were made in different ways; `option` is where.
[[nodiscard]] auto options_error(char const* group, std::string const& option) -> Error;

/// What a rank is told in every call after an error.
[[nodiscard]] auto unusable_error(Errc code, std::string const& happened, RankCall const& call) -> Error;

struct RankCalls;

/// What a rank has called so far: how many operations, a digest of all of them, and the last ones.
class CallHistory {
 public:
  static constexpr std::uint64_t kept = 32;

  void add(Call const& call) noexcept;

  [[nodiscard]] auto operations() const noexcept -> std::uint64_t { return operations_; }

  /// A 64-bit hash of the calls and their order: equal for other calls only by chance.
  [[nodiscard]] auto digest() const noexcept -> std::uint64_t { return digest_; }

  /// What the ranks are told, if these two have called something else for their n-th time. Of calls that one of them
  /// does not keep any more nothing is known.
  [[nodiscard]] static auto mismatch(RankCalls const& first, RankCalls const& other) -> std::optional<Error>;

 private:
  std::uint64_t operations_ = 0;
  std::uint64_t digest_ = 0;
  std::array<Call, kept> last_{};
};

/// What is told about two ranks that called different things: the calls of one of them.
struct RankCalls {
  Rank rank;
  CallHistory const& calls;
};

/// For a model whose ranks show each other their calls: whether these agree, what it says when they do not, and why the
/// ranks cannot work together any more.
///
/// Threads: the worker's.
class Agreement {
 public:
  /// The first rank that calls something else than rank 0. `call_of(number)`: what the rank of that number calls.
  template <class F>
  [[nodiscard]] static auto first_mismatch(WorldSize ranks, F const& call_of) -> std::optional<Rank> {
    auto const& first = call_of(0);
    for (std::uint32_t other = 1; other < ranks.value; ++other) {
      if (call_of(other) != first) [[unlikely]]
        return Rank{other};
    }
    return std::nullopt;
  }

  /// What all ranks are told then. `counts_of(rank)`: what that rank calls all_gatherv with; all ranks call it, or
  /// none.
  template <class CountsOf>
  [[nodiscard]] static auto mismatch(RankCall const& first, RankCall const& other, CountsOf const& counts_of) -> Error {
    if (first.call.operation != Operation::all_gatherv || other.call.operation != Operation::all_gatherv)
      return mismatch_error(first, other);
    std::vector<std::size_t> const counts = counts_of(first.rank);
    std::vector<std::size_t> const other_counts = counts_of(other.rank);
    return mismatch_error({first.rank, first.call, counts}, {other.rank, other.call, other_counts});
  }

  /// From now on `check_usable` throws this. The first reason counts.
  void make_unusable(Errc code, std::string why);

  /// For what all ranks come to know together.
  [[noreturn]] void end_by(Error const& error);

  [[nodiscard]] auto is_usable() const noexcept -> bool { return since_.empty(); }

  /// Errors: after `make_unusable` its own.
  void check_usable(Call const& call, Rank rank) const {
    if (!is_usable()) throw unusable_error(code_, since_, {rank, call});
  }

 private:
  Errc code_{};
  std::string since_;  ///< Why the ranks cannot work together any more; empty as long as they can.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/agreement-inl.hpp>
#endif
