// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/run_token.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto RunToken::random() -> RunToken {
  RunToken token;
  token.bytes_ = detail::random_bytes<size_bytes>();
  return token;
}

RAYTRAIN_INLINE auto RunToken::from_hex(std::string_view text) -> RunToken {
  auto const refuse = [](std::string const& happened) {
    throw Error{Errc::invalid_config, "reading a run's token", happened, "pass it on as RunToken::to_hex gave it"};
  };
  if (text.size() != 2 * size_bytes) {
    refuse("it must have " + std::to_string(2 * size_bytes) + " characters (got " + std::to_string(text.size()) + ")");
  }
  RunToken token;
  for (std::size_t i = 0; i < size_bytes; ++i) {
    auto const high = digits.find(text[2 * i]);
    auto const low = digits.find(text[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) {
      refuse("byte " + std::to_string(i) + " is not two of " + std::string{digits});
    }
    token.bytes_[i] = static_cast<std::byte>(16 * high + low);
  }
  return token;
}

RAYTRAIN_INLINE auto RunToken::to_hex() const -> std::string {
  std::string text;
  for (auto const byte : bytes_) {
    text += digits[std::to_integer<std::size_t>(byte >> 4U)];
    text += digits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

RAYTRAIN_INLINE auto RunToken::same(BytesView one, BytesView other) noexcept -> bool {
  if (one.size() != other.size()) return false;
  std::byte difference{};
  for (std::size_t i = 0; i < one.size(); ++i) difference |= one[i] ^ other[i];
  return difference == std::byte{};
}

}  // namespace raytrain
