// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

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
[[nodiscard]] auto describe(CallWithCounts const& mine, CallWithCounts const& other) -> std::string;

/// What all ranks are told when `rank` is the first that calls something else than rank 0, or `first_rank`.
[[nodiscard]] auto mismatch_error(CallWithCounts const& first, Rank rank, CallWithCounts const& other,
                                  Rank first_rank = {}) -> Error;

/// What all ranks are told whose groups were made in different ways; `option` is where.
[[nodiscard]] auto options_error(char const* group, std::string const& option) -> Error;

/// What a rank is told that would wait for one whose training function has ended.
[[nodiscard]] auto ended_error(Rank ended, Rank waiting, Call const& call) -> Error;

/// "30 s", "1500 ms".
[[nodiscard]] auto time_text(std::chrono::milliseconds time) -> std::string;

/// "rank 1", "ranks 1 and 2", "ranks 1, 2 and 3".
[[nodiscard]] auto ranks_text(std::vector<std::uint32_t> const& ranks) -> std::string;

/// What a rank is told that has waited in vain.
[[nodiscard]] auto late_error(std::vector<std::uint32_t> const& missing, std::chrono::milliseconds timeout,
                              Rank waiting, Call const& call) -> Error;

/// What is said before that.
[[nodiscard]] auto late_warning(std::vector<std::uint32_t> const& missing, std::chrono::milliseconds waited,
                                Rank waiting, Call const& call) -> std::string;

/// What a rank is told in every call after an error.
[[nodiscard]] auto unusable_error(Errc code, std::string const& happened, Rank rank, Call const& call) -> Error;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/call_errors-inl.hpp>
#endif
