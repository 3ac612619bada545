// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <raytrain/collective/waiting.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/signs_of_life.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto Backoff::pause() -> std::chrono::nanoseconds {
  if (++looks_ % looks_a_turn_ != 0 && waited_ <= awake_time_) [[likely]]
    return waited_;
  auto const now = Clock::now();
  if (begin_ == Clock::time_point{}) {
    begin_ = now - std::chrono::nanoseconds{1};
    waits_.emplace(SignsOfLife::Activity::waits);
  }
  waited_ = now - begin_;
  if (waited_ > awake_time_) {
    // The system adds 50 us to both.
    std::this_thread::sleep_for(waited_ < awake_time_ + long_time ? std::chrono::microseconds{20}
                                                                  : std::chrono::microseconds{1000});
  } else if (waited_ >= keep_core_time_) {
    std::this_thread::yield();
  }
  return waited_;
}

RAYTRAIN_INLINE auto time_text(std::chrono::milliseconds time) -> std::string {
  auto const count = time.count();
  return count % 1000 == 0 && count > 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

RAYTRAIN_INLINE auto ranks_text(std::vector<std::uint32_t> const& ranks) -> std::string {
  if (ranks.empty()) return "the others";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

RAYTRAIN_INLINE auto ended_error(WaitForEnded ranks, std::string const& what) -> Error {
  return {Errc::rank_mismatch, "collective call",
          "rank " + std::to_string(ranks.ended.value) + " has ended while rank " + std::to_string(ranks.waiting.value) +
              " waits in " + what,
          "make every rank call the same operations, as often"};
}

RAYTRAIN_INLINE auto late_error(LateRanks const& late, Rank waiting, std::string const& what) -> Error {
  return {Errc::timed_out, what + " on rank " + std::to_string(waiting.value),
          ranks_text(late.missing) + (late.missing.size() == 1 ? " has" : " have") + " not come within " +
              time_text(late.waited),
          "look at what is done there instead, or allow more time: RunConfig::collective_timeout, WaitLimits::timeout"};
}

RAYTRAIN_INLINE auto late_warning(LateRanks const& late, Rank waiting, std::string const& what) -> std::string {
  return "rank " + std::to_string(waiting.value) + " has waited " + time_text(late.waited) + " in " + what + " for " +
         ranks_text(late.missing);
}

}  // namespace raytrain::detail
