// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

#include <zlib.h>

#include <doctest/doctest.h>

/// A file of this content, packed as small as gzip can. Returns the path.
inline auto write_gzip(std::filesystem::path const& path, std::string_view content) -> std::filesystem::path {
  auto* const file = ::gzopen(path.c_str(), "wb9");
  REQUIRE(::gzwrite(file, content.data(), static_cast<unsigned>(content.size())) == static_cast<int>(content.size()));
  REQUIRE(::gzclose(file) == Z_OK);
  return path;
}
