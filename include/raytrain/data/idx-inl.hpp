// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
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
#include <raytrain/data/detail/idx_header.hpp>
#include <raytrain/data/idx.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto read_idx(std::filesystem::path const& path) -> Column {
  std::optional<detail::DataFile> file{std::in_place, path};
  auto header = detail::read_idx_header(*file);
  auto const promised = header.header_bytes + header.data_bytes;
  auto const check_held = [&](std::uint64_t held) {
    if (held == promised) return;
    throw Error{Errc::invalid_data, fmt::format("read IDX file '{}'", path.string()),
                fmt::format("its header promises {}, {} bytes in all, and it holds {}{}", header.describe(), promised,
                            held, file->is_gzip() ? " once inflated" : ""),
                held < promised ? "it is cut short: fetch it again" : "something follows the data: fetch it again"};
  };
  if (!file->may_hold(promised)) {
    check_held(file->is_gzip() ? header.header_bytes + file->skip_rest() : file->disk_bytes());
    file.emplace(path);
    header = detail::read_idx_header(*file);
  }
  auto const data_bytes = static_cast<std::size_t>(header.data_bytes);
  std::shared_ptr<std::byte[]> const data = std::make_unique_for_overwrite<std::byte[]>(data_bytes);
  std::span const bytes{data.get(), data_bytes};
  auto const got = file->read(bytes);
  // The end must be asked for even when all is there: a gzip file's checksum is only looked at behind its last byte.
  check_held(header.header_bytes + got + file->skip_rest());
  detail::big_endian_to_native(bytes, header.type);
  return {ColumnFormat{"data", header.type, RowShape(header.extents.begin() + 1, header.extents.end())},
          std::shared_ptr<std::byte const>{data, data.get()}, header.extents.front()};
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
