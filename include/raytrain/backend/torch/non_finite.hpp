// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace raytrain {

/// What `TorchContext::check_finite` does about a loss that is an infinity or a NaN.
enum class NonFinite : std::uint8_t {
  stop,  ///< The run ends.
  warn,  ///< The worker warns of its 1st, 2nd, 4th, 8th such loss and so on, and training goes on.
};

}  // namespace raytrain
