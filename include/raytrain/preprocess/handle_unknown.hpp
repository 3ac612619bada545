// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace raytrain {

/// What an encoder does with a value that fit has not seen.
enum class HandleUnknown {
  error,   ///< Refuses it, naming the column and the value.
  ignore,  ///< Encodes it as no category.
};

constexpr auto enum_names(HandleUnknown /*any*/) noexcept { return std::array<std::string_view, 2>{"error", "ignore"}; }

}  // namespace raytrain
