// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace raytrain {

namespace detail {

/// Length in bytes of the well-formed UTF-8 sequence that `text` begins with; 0 if it begins with none.
///
/// Source: table 3-7 of the Unicode Standard, which excludes overlong forms and surrogates.
[[nodiscard]] auto utf8_sequence_length(std::string_view text) noexcept -> std::size_t;

/// Appends a code point that is no surrogate and at most 10FFFF.
void append_utf8(std::string& text, std::uint32_t code);

}  // namespace detail

[[nodiscard]] auto is_utf8(std::string_view text) noexcept -> bool;

/// The text, with U+FFFD in place of every byte that is not part of well-formed UTF-8.
[[nodiscard]] auto to_utf8(std::string_view text) -> std::string;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/utf8-inl.hpp>
#endif
