// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <ctime>
#include <string>

#include <raytrain/checkpoint/detail/utc_time.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto utc_now() -> std::string {
  auto const now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace raytrain::detail
