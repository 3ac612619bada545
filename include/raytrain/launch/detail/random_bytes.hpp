// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>

#include <raytrain/core/error.hpp>

namespace raytrain::detail {

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

}  // namespace raytrain::detail
