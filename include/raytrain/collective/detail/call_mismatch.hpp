// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include <raytrain/collective/detail/call.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// What a rank calls; `counts` are those of all_gatherv by rank, or empty.
struct CallWithCounts {
  Call call;
  std::span<std::size_t const> counts{};
};

/// The call, with that of the counts in which it differs from the other call.
[[nodiscard]] inline auto describe(CallWithCounts const& mine, CallWithCounts const& other) -> std::string {
  auto text = to_string(mine.call);
  auto const [own, others] = std::ranges::mismatch(mine.counts, other.counts);
  if (own == mine.counts.end() || others == other.counts.end()) return text;
  return text + " of which rank " + std::to_string(own - mine.counts.begin()) + " sends " + std::to_string(*own);
}

/// What all ranks are told when `rank` is the first that calls something else than rank 0.
[[nodiscard]] inline auto mismatch_error(CallWithCounts const& first, Rank rank, CallWithCounts const& other) -> Error {
  return {Errc::rank_mismatch, "collective call",
          "rank 0 calls " + describe(first, other) + ", but rank " + std::to_string(rank.value) + " calls " +
              describe(other, first),
          "make every rank call the same operations in the same order, on arrays of one size and type"};
}

/// What a rank is told that would wait for one whose training function has ended.
[[nodiscard]] inline auto ended_error(Rank ended, Rank waiting, Call const& call) -> Error {
  return {Errc::rank_mismatch, "collective call",
          "rank " + std::to_string(ended.value) + " has ended while rank " + std::to_string(waiting.value) +
              " waits in " + to_string(call),
          "make every rank call the same operations, as often"};
}

}  // namespace raytrain::detail
