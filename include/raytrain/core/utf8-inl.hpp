// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto utf8_sequence_length(std::string_view text) noexcept -> std::size_t {
  auto const byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  auto const continues = [&](std::size_t i) { return byte(i) >= 0x80U && byte(i) <= 0xBFU; };
  auto const lead = byte(0);
  if (text.empty()) return 0;
  if (lead < 0x80U) return 1;
  if (lead >= 0xC2U && lead <= 0xDFU) return continues(1) ? 2 : 0;
  if (lead >= 0xE0U && lead <= 0xEFU) {
    auto const lowest = lead == 0xE0U ? 0xA0U : 0x80U;
    auto const highest = lead == 0xEDU ? 0x9FU : 0xBFU;
    return byte(1) >= lowest && byte(1) <= highest && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0U && lead <= 0xF4U) {
    auto const lowest = lead == 0xF0U ? 0x90U : 0x80U;
    auto const highest = lead == 0xF4U ? 0x8FU : 0xBFU;
    return byte(1) >= lowest && byte(1) <= highest && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

RAYTRAIN_INLINE void append_utf8(std::string& text, std::uint32_t code) {
  auto const lead = [&](std::uint32_t marker, unsigned shift) { text += static_cast<char>(marker | (code >> shift)); };
  auto const next = [&](unsigned shift) { text += static_cast<char>(0x80U | ((code >> shift) & 0x3FU)); };
  if (code < 0x80U) {
    lead(0, 0);
  } else if (code < 0x800U) {
    lead(0xC0U, 6), next(0);
  } else if (code < 0x10000U) {
    lead(0xE0U, 12), next(6), next(0);
  } else {
    lead(0xF0U, 18), next(12), next(6), next(0);
  }
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto is_utf8(std::string_view text) noexcept -> bool {
  while (!text.empty()) {
    auto const length = detail::utf8_sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

RAYTRAIN_INLINE auto to_utf8(std::string_view text) -> std::string {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    auto const length = detail::utf8_sequence_length(text);
    if (length == 0) {
      valid += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    } else {
      valid += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return valid;
}

}  // namespace raytrain
