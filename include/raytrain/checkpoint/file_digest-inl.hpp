// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/checkpoint/file_digest.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto file_digest(std::filesystem::path const& path) -> std::string {
  return detail::xxh3_of_file(path);
}

}  // namespace raytrain
