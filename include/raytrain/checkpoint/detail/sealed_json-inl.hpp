// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <raytrain/checkpoint/detail/sealed_json.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/xxh3.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto unseal(std::string_view text) -> std::optional<std::string> {
  constexpr auto seal_bytes = seal_begin.size() + seal_digits + seal_end.size();
  if (text.size() < seal_bytes) return std::nullopt;
  auto const body = text.substr(0, text.size() - seal_bytes);
  auto const expected = std::string{seal_begin} + xxh3_of(bytes_of(body)) + std::string{seal_end};
  if (text.substr(body.size()) != expected) return std::nullopt;
  return std::string{body} + "\n}\n";
}

RAYTRAIN_INLINE auto format_of(std::string_view json) -> std::uint32_t {
  constexpr std::string_view key = "\n  \"format\": ";
  std::uint32_t format = 0;
  if (auto const at = json.find(key); at != std::string_view::npos) {
    std::from_chars(json.data() + at + key.size(), json.data() + json.size(), format);
  }
  return format;
}

}  // namespace raytrain::detail
