// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/call_errors.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// For a model whose ranks show each other their calls: whether these agree, and what it says when they do not.
class Agreement {
 public:
  /// From now on `check_usable` throws this.
  void break_off(Errc code, std::string why);

  /// For what all ranks come to know together.
  [[noreturn]] void end_by(Error const& error);

  /// Errors: after `break_off` its own, after a `check` that threw `rank_mismatch`.
  void check_usable(Call const& call, Rank rank) const;

  /// `calls` are all ranks', the same on every rank, and `counts` what this one called all_gatherv with, or empty.
  /// `exchange(mine, all)` is an all_gather of numbers; all ranks call it, or none.
  ///
  /// Errors: `rank_mismatch` on every rank alike unless all calls are equal.
  template <class Exchange>
  void check(std::span<Call const> calls, std::span<std::size_t const> counts, Exchange const& exchange) {
    auto const odd = static_cast<std::size_t>(
        std::ranges::find_if(calls, [&](Call const& call) { return call != calls[0]; }) - calls.begin());
    if (odd == calls.size()) return;
    CallWithCounts first{calls[0]};
    CallWithCounts second{calls[odd]};
    std::vector<std::size_t> all;
    if (first.call.operation == Operation::all_gatherv && second.call.operation == Operation::all_gatherv) {
      auto const ranks = calls.size();
      std::vector<std::size_t> mine(ranks);
      std::ranges::copy(counts, mine.begin());
      all.resize(ranks * ranks);
      exchange(std::span<std::size_t const>{mine}, std::span<std::size_t>{all});
      first.counts = std::span{all}.first(ranks);
      second.counts = std::span{all}.subspan(odd * ranks, ranks);
    }
    end_by(mismatch_error(first, Rank{static_cast<std::uint32_t>(odd)}, second));
  }

 private:
  Errc code_{};
  std::string since_;  ///< Why the ranks cannot work together any more; empty as long as they can.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/agreement-inl.hpp>
#endif
