// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/idx_header.hpp>
#include <raytrain/data/detail/read_body.hpp>
#include <raytrain/data/detail/read_each.hpp>
#include <raytrain/data/detail/swapped_bytes.hpp>
#include <raytrain/data/idx.hpp>

namespace raytrain::detail {

[[nodiscard]] RAYTRAIN_INLINE auto read_idx_file(std::filesystem::path const& path) -> Dataset {
  DataFile file{path};
  constexpr std::uint64_t most_unpack_ratio = 200;
  file.limit_unpacking(most_unpack_ratio, "");
  auto const header = read_idx_header(file);
  auto const data = read_body(file, {fmt::format("read IDX file '{}'", path.string()), header.describe(),
                                     header.header_bytes, header.data_bytes});
  if constexpr (std::endian::native == std::endian::little) {
    swap_bytes(std::span{data.get(), static_cast<std::size_t>(header.data_bytes)}, header.type);
  }
  return Dataset::from_columns(
      {Column{ColumnFormat{"data", header.type, RowShape(header.extents.begin() + 1, header.extents.end())},
              std::shared_ptr<std::byte const>{data, data.get()}, header.extents.front()}});
}

/// "'train-images'", "'part-1' and 2 others".
[[nodiscard]] RAYTRAIN_INLINE auto shown_files(DataPaths const& paths) -> std::string {
  auto const files = paths.files();
  auto const first = fmt::format("'{}'", files.front().string());
  return files.size() == 1 ? first : fmt::format("{} and {} others", first, files.size() - 1);
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto read_idx(DataPaths const& paths) -> Column {
  return detail::read_each(paths, [](auto const& path, int) { return detail::read_idx_file(path); }).columns().front();
}

RAYTRAIN_INLINE auto read_idx(DataPaths const& images, DataPaths const& labels) -> Dataset {
  auto label = read_idx(labels).named("label");
  auto image = read_idx(images).named("image");
  auto const attempted =
      fmt::format("read IDX files {} and {}", detail::shown_files(images), detail::shown_files(labels));
  if (image.rows() != label.rows()) {
    throw Error{Errc::invalid_data, attempted,
                fmt::format("there are {} images and {} labels", image.rows(), label.rows()),
                "name two files that belong together"};
  }
  if (image.row_shape().empty() && !label.row_shape().empty()) {
    throw Error{Errc::invalid_data, attempted, fmt::format("an image is one value and a label is {}", label.describe()),
                "name the file of images first"};
  }
  return Dataset::from_columns({std::move(image), std::move(label)});
}

}  // namespace raytrain
