// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// The bytes that these hexadecimal digits stand for, two for each.
[[nodiscard]] inline auto from_hex(std::string_view digits) -> std::string {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string{digits.substr(i, 2)}, nullptr, 16));
  }
  return bytes;
}
