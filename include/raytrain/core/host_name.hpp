// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace raytrain {

/// What this machine calls itself; "localhost" when it cannot say.
[[nodiscard]] auto host_name() -> std::string;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/host_name-inl.hpp>
#endif
