// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <array>
#include <string>

#include <raytrain/core/host_name.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto host_name() -> std::string {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string{name.data()} : "localhost";
}

}  // namespace raytrain
