// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/usable_cores.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/decode_image.hpp>
#include <raytrain/data/detail/file_state.hpp>
#include <raytrain/data/detail/image_folder.hpp>
#include <raytrain/data/detail/resize_image.hpp>
#include <raytrain/data/images_options.hpp>
#include <raytrain/data/ordered_prefetch.hpp>

namespace raytrain::detail {

using SharedTexts = std::shared_ptr<std::vector<std::string> const>;

[[nodiscard]] inline auto column_of_codes(std::string name, std::vector<std::int32_t> codes, SharedTexts texts)
    -> Column {
  auto const owner = std::make_shared<std::vector<std::int32_t> const>(std::move(codes));
  return {ColumnFormat{std::move(name), ElementType::int32, {}, std::move(texts)},
          {owner, reinterpret_cast<std::byte const*>(owner->data())},
          owner->size()};
}

/// The images of a folder; one that was changed since this was made is refused.
class ImageReader {
 public:
  /// Errors: `invalid_config`; those of `find_images`; `not_found` or `io` for a file that is there no more.
  ImageReader(std::filesystem::path const& folder, ImagesOptions const& options) : options_{options} {
    options.validate();
    auto found = find_images(folder);
    for (auto const& path : found.paths) files_.emplace_back(folder / path);
    paths_ = std::move(found.paths);
    classes_ = std::make_shared<std::vector<std::string> const>(std::move(found.classes));
  }

  [[nodiscard]] auto rows() const noexcept -> std::size_t { return files_.size(); }

  /// All that the rows follow from.
  [[nodiscard]] auto source() const -> std::string {
    std::uint64_t bytes = 0;
    std::string all;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      bytes += files_[i].size_bytes();
      all += fmt::format("{} {} {} {}\n", paths_[i].size(), paths_[i], files_[i].size_bytes(), files_[i].time_text());
    }
    auto const size = options_.height == 0 ? "the first one's size"
                                           : fmt::format("{} x {}, bilinear", options_.height, options_.width);
    return fmt::format("images of {}, channels {}, {} files of {} bytes, whose paths, sizes and times give {}", size,
                       options_.channels, files_.size(), bytes, xxh3_of(bytes_of(all)).substr(0, 16));
  }

  /// Rows `first` to `last`, the latter not included.
  [[nodiscard]] auto read(std::size_t first, std::size_t last) -> Dataset {
    auto const shape = row_shape();
    std::shared_ptr<std::uint8_t[]> const pixels =
        std::make_unique_for_overwrite<std::uint8_t[]>((last - first) * shape.bytes());
    auto const make = [&](std::size_t i) {
      read_image(first + i, shape, {pixels.get() + i * shape.bytes(), shape.bytes()});
      return true;
    };
    auto const threads = options_.threads > 0 ? options_.threads : static_cast<int>(usable_core_count());
    OrderedPrefetch<bool> made{last - first, {.threads = threads}, [&](auto const& run) { run(make); }};
    for (auto i = first; i < last; ++i) (void)made.take();  // in order, so that the first image's error is thrown

    std::vector<Column> columns{
        {ColumnFormat{"image", ElementType::uint8, {shape.height, shape.width, shape.channels}},
         std::shared_ptr<std::byte const>{pixels, reinterpret_cast<std::byte const*>(pixels.get())}, last - first}};
    if (!classes_->empty()) columns.push_back(labels(first, last));
    std::vector<std::int32_t> numbers(last - first);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::span const paths{paths_.begin() + static_cast<std::ptrdiff_t>(first), last - first};
    columns.push_back(column_of_codes("path", std::move(numbers),
                                      std::make_shared<std::vector<std::string> const>(paths.begin(), paths.end())));
    return Dataset::from_columns(std::move(columns));
  }

  /// Of the files of these rows, which are not read. Errors: as `read`, for one that was removed or changed.
  void check(std::size_t first, std::size_t last) const {
    for (auto row = first; row < last; ++row) files_[row].check();
  }

 private:
  [[nodiscard]] auto attempted(std::size_t row) const -> std::string {
    return fmt::format("read image '{}'", files_[row].path().string());
  }

  [[nodiscard]] auto labels(std::size_t first, std::size_t last) const -> Column {
    std::vector<std::int32_t> codes;
    for (auto row = first; row < last; ++row) {
      auto const name = paths_[row].substr(0, paths_[row].find('/'));
      codes.push_back(static_cast<std::int32_t>(std::ranges::lower_bound(*classes_, name) - classes_->begin()));
    }
    return column_of_codes("label", std::move(codes), classes_);
  }

  /// That of the options, or of the first image.
  [[nodiscard]] auto row_shape() -> ImageShape {
    if (options_.height > 0) return {options_.height, options_.width, static_cast<std::size_t>(options_.channels)};
    if (first_shape_.height == 0) with_content(0, [&](auto const& image) { first_shape_ = image_shape(image); });
    return first_shape_;
  }

  void read_image(std::size_t row, ImageShape const& shape, std::span<std::uint8_t> out) const {
    with_content(row, [&](EncodedImage const& image) {
      auto const own = options_.height > 0 ? shape : image_shape(image);
      if (own != shape) {
        throw Error{Errc::invalid_data, image.attempted,
                    fmt::format("it is {} high and {} wide, and the first one, '{}', is {} high and {} wide",
                                own.height, own.width, paths_.front(), shape.height, shape.width),
                    "set ImagesOptions::height and width, to which all are resized then"};
      }
      decode_image(image, shape, out);
    });
  }

  /// Where the file was changed meanwhile, the error says that, whatever else is wrong.
  template <class Work>
  void with_content(std::size_t row, Work const& work) const {
    auto const& file = files_[row];
    try {
      if (file.size_bytes() > most_image_bytes) {
        throw Error{Errc::invalid_data, attempted(row),
                    fmt::format("it has {} bytes, and {} are the most", file.size_bytes(), most_image_bytes),
                    "look whether it is an image"};
      }
      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(file.size_bytes()));
      errno = 0;
      std::ifstream stream{file.path(), std::ios::binary};
      stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      if (!stream) {
        throw Error{Errc::io, attempted(row), std::generic_category().message(errno), "check its permissions"};
      }
      work(EncodedImage{attempted(row), bytes, static_cast<std::size_t>(options_.channels), options_.max_pixels});
    } catch (Error const&) {
      file.check();
      throw;
    }
    file.check();
  }

  ImagesOptions options_;
  std::vector<FileState> files_;
  std::vector<std::string> paths_;
  SharedTexts classes_;
  ImageShape first_shape_;
};

}  // namespace raytrain::detail
