// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace raytrain::detail {

/// What a shell takes as one word, whatever is in it.
[[nodiscard]] auto shell_word(std::string_view text) -> std::string;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/shell_text-inl.hpp>
#endif
