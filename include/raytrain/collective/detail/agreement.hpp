// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/collective/detail/call.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// For a model whose ranks show each other their calls: whether these agree, and what it says when they do not.
class Agreement {
 public:
  /// From now on `check_usable` throws this.
  void break_off(Errc code, std::string why) {
    code_ = code;
    since_ = std::move(why);
  }

  /// Errors: after `break_off` its own, after a `check` that threw `rank_mismatch`.
  void check_usable(Call const& call, Rank rank) const {
    if (since_.empty()) return;
    throw Error{code_, to_string(call) + " on rank " + std::to_string(rank.value),
                "the group is unusable since " + since_, "let the error end the training function"};
  }

  /// `calls` are all ranks', the same on every rank, and `counts` what this one called all_gatherv with, or empty.
  /// `exchange(mine, all)` is an all_gather of numbers; all ranks call it, or none.
  ///
  /// Errors: `rank_mismatch` on every rank alike unless all calls are equal.
  template <class Exchange>
  void check(std::span<Call const> calls, std::span<std::size_t const> counts, Exchange const& exchange) {
    auto const odd = static_cast<std::size_t>(
        std::ranges::find_if(calls, [&](Call const& call) { return call != calls[0]; }) - calls.begin());
    if (odd == calls.size()) return;
    auto first = to_string(calls[0]);
    auto second = to_string(calls[odd]);
    if (calls[0].operation == Operation::all_gatherv && calls[odd].operation == Operation::all_gatherv) {
      auto const ranks = calls.size();
      std::vector<std::size_t> mine(ranks);
      std::ranges::copy(counts, mine.begin());
      std::vector<std::size_t> all(ranks * ranks);
      exchange(std::span<std::size_t const>{mine}, std::span<std::size_t>{all});
      auto const* const others = all.data() + odd * ranks;
      auto const differs =
          static_cast<std::size_t>(std::mismatch(all.data(), all.data() + ranks, others).first - all.data());
      if (differs < ranks) {
        auto const sends = " of which rank " + std::to_string(differs) + " sends ";
        first += sends + std::to_string(all[differs]);
        second += sends + std::to_string(others[differs]);
      }
    }
    break_off(Errc::rank_mismatch, "rank 0 calls " + first + ", but rank " + std::to_string(odd) + " calls " + second);
    throw Error{Errc::rank_mismatch, "collective call", since_,
                "make every rank call the same operations in the same order, on arrays of one size and type"};
  }

 private:
  Errc code_{};
  std::string since_;  ///< Why the ranks cannot work together any more; empty as long as they can.
};

}  // namespace raytrain::detail
