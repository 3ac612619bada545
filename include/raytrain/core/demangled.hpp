// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace raytrain::detail {

/// The name of a type or a function as one writes it, from the one that the compiler gives it; that one if it is none.
[[nodiscard]] auto demangled(char const* name) -> std::string;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/demangled-inl.hpp>
#endif
