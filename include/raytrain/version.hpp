// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// For #if; raytrain has no other macros.
#define RAYTRAIN_VERSION_MAJOR 0
#define RAYTRAIN_VERSION_MINOR 1
#define RAYTRAIN_VERSION_PATCH 0

namespace raytrain {

inline constexpr std::string_view version = "0.1.0";

}  // namespace raytrain
