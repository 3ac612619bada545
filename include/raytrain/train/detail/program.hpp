// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace raytrain::detail {

/// Name of the running program, the same for every way of starting it.
[[nodiscard]] auto program_name() -> std::string;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/program-inl.hpp>
#endif
