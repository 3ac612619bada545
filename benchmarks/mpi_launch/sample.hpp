// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include <cereal/cereal.hpp>

/// What the workers report: as much as a training usually has to say after a step.
struct Sample {
  std::int64_t step = 0;
  double loss = 0;
  double accuracy = 0;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(step), CEREAL_NVP(loss), CEREAL_NVP(accuracy));
  }
};

/// The same for all processes of a host.
inline auto now_ns() -> std::int64_t {
  return std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count();
}
