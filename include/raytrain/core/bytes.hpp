// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace raytrain {

/// Bytes that are owned.
using Bytes = std::vector<std::byte>;

/// Bytes that somebody else owns.
using BytesView = std::span<std::byte const>;

[[nodiscard]] inline auto bytes_of(std::string_view text) noexcept -> BytesView {
  return std::as_bytes(std::span{text.data(), text.size()});
}

[[nodiscard]] inline auto text_of(BytesView bytes) noexcept -> std::string_view {
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

}  // namespace raytrain
