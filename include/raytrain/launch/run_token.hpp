// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain {

/// What the processes of one run know and nobody else does: random, and new for each run.
///
/// Its two halves are independent secrets. A client shows the first one and a server answers with the second, so that
/// whoever else happens to listen at the server's address learns nothing with which it could answer.
class RunToken {
 public:
  static constexpr std::size_t size_bytes = 32;

  /// Errors: `io` when the operating system has no random bytes.
  [[nodiscard]] static auto random() -> RunToken {
    RunToken token;
    for (std::size_t filled = 0; filled < size_bytes;) {
      auto const count = ::getrandom(token.bytes_.data() + filled, size_bytes - filled, 0);
      if (count > 0) {
        filled += static_cast<std::size_t>(count);
      } else if (errno != EINTR) {
        std::error_code const error{errno, std::generic_category()};
        throw Error{Errc::io, "making a token for the run", "getrandom: " + error.message()};
      }
    }
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

  [[nodiscard]] auto client_half() const noexcept -> BytesView { return BytesView{bytes_}.first(size_bytes / 2); }
  [[nodiscard]] auto server_half() const noexcept -> BytesView { return BytesView{bytes_}.last(size_bytes / 2); }

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
