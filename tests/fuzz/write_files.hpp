// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/bytes.hpp>

namespace raytrain::testing {

/// A file of each seed, behind `prefix`.
inline void write_files(std::filesystem::path const& folder, std::vector<Bytes> const& seeds,
                        std::string_view prefix = {}) {
  std::filesystem::create_directories(folder);
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream file{folder / ("seed_" + std::to_string(i)), std::ios::binary};
    file.exceptions(std::ios::badbit | std::ios::failbit);
    file << prefix << text_of(seeds[i]);
  }
}

}  // namespace raytrain::testing
