// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/file_state.hpp>
#include <raytrain/data/detail/idx_header.hpp>
#include <raytrain/data/detail/read_body.hpp>
#include <raytrain/data/detail/swapped_bytes.hpp>
#include <raytrain/data/idx.hpp>

namespace raytrain::detail {

[[nodiscard]] RAYTRAIN_INLINE auto read_idx_once(std::filesystem::path const& path) -> Column {
  DataFile file{path};
  auto const header = read_idx_header(file);
  auto const data = read_body(file, {fmt::format("read IDX file '{}'", path.string()), header.describe(),
                                     header.header_bytes, header.data_bytes});
  if constexpr (std::endian::native == std::endian::little) {
    swap_bytes(std::span{data.get(), static_cast<std::size_t>(header.data_bytes)}, header.type);
  }
  return {ColumnFormat{"data", header.type, RowShape(header.extents.begin() + 1, header.extents.end())},
          std::shared_ptr<std::byte const>{data, data.get()}, header.extents.front()};
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto read_idx(std::filesystem::path const& path) -> Column {
  std::optional<Column> column;
  detail::read_unchanged(path, [&] { column = detail::read_idx_once(path); });
  return *std::move(column);
}

RAYTRAIN_INLINE auto read_idx(std::filesystem::path const& images, std::filesystem::path const& labels) -> Dataset {
  auto label = read_idx(labels).named("label");
  auto image = read_idx(images).named("image");
  auto const attempted = fmt::format("read IDX files '{}' and '{}'", images.string(), labels.string());
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
