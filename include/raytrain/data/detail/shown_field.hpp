// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace raytrain::detail {

/// A text of a file as an error shows it: 40 bytes of it, with '?' for control characters, U+FFFD for what is not
/// UTF-8.
[[nodiscard]] auto shown_field(std::string_view text) -> std::string;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/shown_field-inl.hpp>
#endif
