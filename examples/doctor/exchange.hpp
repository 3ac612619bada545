#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include <raytrain/backend/mpi/mpi_context.hpp>

#include "findings.hpp"

// Seconds of one all_reduce of that many floats: the median of several. A group operation.
inline auto seconds_to_sum(raytrain::MpiContext& ctx, std::size_t count, int rounds) -> double {
  auto values = ctx.collective().allocate<float>(count);
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    ctx.barrier();
    auto const start = std::chrono::steady_clock::now();
    ctx.sum(values.span());
    seconds.push_back(std::chrono::duration<double>{std::chrono::steady_clock::now() - start}.count());
  }
  std::ranges::nth_element(seconds, seconds.begin() + rounds / 2);
  return seconds[static_cast<std::size_t>(rounds / 2)];
}

// How fast the workers exchange arrays. A group operation.
inline void examine_exchange(raytrain::MpiContext& ctx, Findings& findings) {
  if (ctx.world_size().value < 2) return findings.say("Exchange", "none: there is one worker");
  constexpr std::size_t small = 2;
  constexpr std::size_t large = 1 << 20;
  auto const seconds = seconds_to_sum(ctx, small, 201);
  auto const large_seconds = seconds_to_sum(ctx, large, 21);
  findings.say("Exchange", fmt::format("all_reduce of 8 B takes {:.1f} us, of 4 MiB {:.2f} ms ({:.1f} GiB/s)",
                                       seconds * 1e6, large_seconds * 1e3, 4.0 / 1024 / large_seconds));
}
