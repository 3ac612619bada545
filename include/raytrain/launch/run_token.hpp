// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/launch/detail/random_bytes.hpp>

namespace raytrain {

/// What the processes of one run know and nobody else does: random, and new for each run. MPI passes it to the
/// ranks; over connections of raytrain's own go only hashes of which it is the key.
class RunToken {
 public:
  static constexpr std::size_t size_bytes = 16;

  /// Errors: `io` when the operating system has no random bytes.
  [[nodiscard]] static auto random() -> RunToken {
    RunToken token;
    token.bytes_ = detail::random_bytes<size_bytes>();
    return token;
  }

  /// Errors: `invalid_config` for what `to_hex` has not written; the text is a secret, and no part of the message.
  [[nodiscard]] static auto from_hex(std::string_view text) -> RunToken {
    auto const refuse = [](std::string const& happened) {
      throw Error{Errc::invalid_config, "reading a run's token", happened, "pass it on as RunToken::to_hex gave it"};
    };
    if (text.size() != 2 * size_bytes) {
      refuse("it must have " + std::to_string(2 * size_bytes) + " characters (got " + std::to_string(text.size()) +
             ")");
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

  [[nodiscard]] auto to_hex() const -> std::string {
    std::string text;
    for (auto const byte : bytes_) {
      text += digits[std::to_integer<std::size_t>(byte >> 4U)];
      text += digits[std::to_integer<std::size_t>(byte & std::byte{15})];
    }
    return text;
  }

  [[nodiscard]] auto key() const noexcept -> std::span<std::byte const, size_bytes> { return bytes_; }

  /// Takes as long for secrets that begin alike as for any others, so that nobody can guess one byte by byte.
  [[nodiscard]] static auto same(BytesView one, BytesView other) noexcept -> bool {
    if (one.size() != other.size()) return false;
    std::byte difference{};
    for (std::size_t i = 0; i < one.size(); ++i) difference |= one[i] ^ other[i];
    return difference == std::byte{};
  }

  [[nodiscard]] friend auto operator==(RunToken const& one, RunToken const& other) noexcept -> bool {
    return same(one.bytes_, other.bytes_);
  }

 private:
  static constexpr std::string_view digits = "0123456789abcdef";

  RunToken() = default;

  std::array<std::byte, size_bytes> bytes_{};
};

}  // namespace raytrain
