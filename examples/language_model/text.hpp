// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <raytrain/data/dataset.hpp>

/// The licences that come with every Debian: 260 kB.
inline std::filesystem::path const licences_folder = "/usr/share/common-licenses";

/// The files of a folder, in the order of their names and without links, or a file alone.
inline auto read_text(std::filesystem::path const& path) -> std::string {
  std::vector<std::filesystem::path> files{path};
  if (std::filesystem::is_directory(path)) {
    files.clear();
    for (auto const& entry : std::filesystem::directory_iterator{path}) {
      if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
    }
    std::ranges::sort(files);
  }
  std::string text;
  for (auto const& file : files) {
    std::ifstream in{file, std::ios::binary};
    if (!in)
      throw std::runtime_error{fmt::format("reading {}: it cannot be opened; --text names another", file.string())};
    text.append(std::istreambuf_iterator<char>{in}, {});
  }
  return text;
}

struct TextParts {
  raytrain::Dataset train;
  raytrain::Dataset validation;  ///< Each tenth row.
};

/// Rows "text" of so many bytes and the next one. Each begins with the last byte of the one before.
inline auto rows_of(std::string const& text, std::int64_t context) -> TextParts {
  auto const width = static_cast<std::size_t>(context);
  auto const rows = text.empty() ? 0 : (text.size() - 1) / width;
  if (rows < 20) {
    throw std::runtime_error{
        fmt::format("a text of {} bytes gives {} rows of {}, and 20 are needed; --text names a longer one", text.size(),
                    rows, width)};
  }
  std::vector<std::uint8_t> parts[2];
  for (std::size_t row = 0; row < rows; ++row) {
    auto const* const begin = reinterpret_cast<std::uint8_t const*>(text.data()) + row * width;
    auto& part = parts[row % 10 == 9 ? 1 : 0];
    part.insert(part.end(), begin, begin + width + 1);
  }
  auto const dataset = [&](std::vector<std::uint8_t>& bytes) {
    return raytrain::Dataset::from_columns({{"text", std::move(bytes), {width + 1}}});
  };
  return {dataset(parts[0]), dataset(parts[1])};
}
