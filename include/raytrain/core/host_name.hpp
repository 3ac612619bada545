// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <array>
#include <string>

namespace raytrain {

/// What this machine calls itself; "localhost" when it cannot say.
[[nodiscard]] inline auto host_name() -> std::string {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string{name.data()} : "localhost";
}

}  // namespace raytrain
