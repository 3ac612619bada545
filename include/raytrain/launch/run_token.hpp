// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain {

namespace detail {

/// Fit for secrets. Errors: `io` when the operating system has none.
template <std::size_t size>
[[nodiscard]] auto random_bytes() -> std::array<std::byte, size> {
  std::array<std::byte, size> bytes{};
  for (std::size_t filled = 0; filled < size;) {
    auto const count = ::getrandom(bytes.data() + filled, size - filled, 0);
    if (count > 0) {
      filled += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      std::error_code const error{errno, std::generic_category()};
      throw Error{Errc::io, "making a secret for the run", "getrandom: " + error.message()};
    }
  }
  return bytes;
}

}  // namespace detail

/// What the processes of one run know and nobody else does: random, and new for each run. MPI passes it to the
/// ranks; over connections of raytrain's own go only hashes of which it is the key.
class RunToken {
 public:
  static constexpr std::size_t size_bytes = 16;

  /// Errors: `io` when the operating system has no random bytes.
  [[nodiscard]] static auto random() -> RunToken;

  /// Errors: `invalid_config` for what `to_hex` has not written; the text is a secret, and no part of the message.
  [[nodiscard]] static auto from_hex(std::string_view text) -> RunToken;

  [[nodiscard]] auto to_hex() const -> std::string;

  [[nodiscard]] auto key() const noexcept -> std::span<std::byte const, size_bytes> { return bytes_; }

  /// Takes as long for secrets that begin alike as for any others, so that nobody can guess one byte by byte.
  [[nodiscard]] static auto same(BytesView one, BytesView other) noexcept -> bool;

  [[nodiscard]] friend auto operator==(RunToken const& one, RunToken const& other) noexcept -> bool {
    return same(one.bytes_, other.bytes_);
  }

 private:
  static constexpr std::string_view digits = "0123456789abcdef";

  RunToken() = default;

  std::array<std::byte, size_bytes> bytes_{};
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/run_token-inl.hpp>
#endif
