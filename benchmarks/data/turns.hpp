// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <vector>

/// CPU time of all threads of this process, in ms.
inline auto cpu_ms() -> double {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

inline auto wall_ms() -> double {
  return std::chrono::duration<double, std::milli>{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

/// The work's time in ms by a clock.
template <class Work>
auto time_ms(double (*clock)(), Work const& work) -> double {
  auto const begin = clock();
  work();
  return clock() - begin;
}

inline auto median(std::vector<double> times) -> double {
  auto const middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

/// The `i`-th of some random numbers from 0 to 1, 1 not included.
///
/// Source: G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014
/// (SplitMix64).
inline auto random_at(std::uint64_t i) -> double {
  auto bits = (i + 1) * 0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return static_cast<double>((bits ^ (bits >> 31U)) >> 11U) * 0x1p-53;
}
