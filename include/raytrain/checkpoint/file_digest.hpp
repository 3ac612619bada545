// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <raytrain/checkpoint/detail/read_file.hpp>

namespace raytrain {

/// XXH3-128 of what a file holds, 32 hexadecimal digits.
///
/// Errors: `io`.
[[nodiscard]] inline auto file_digest(std::filesystem::path const& path) -> std::string {
  return detail::xxh3_of_file(path);
}

}  // namespace raytrain
