// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace raytrain::detail {

/// The time of day in UTC, "2025-11-21T09:05:00Z".
[[nodiscard]] auto utc_now() -> std::string;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/detail/utc_time-inl.hpp>
#endif
