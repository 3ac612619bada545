// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/image_reader.hpp>
#include <raytrain/data/images_options.hpp>

namespace raytrain {

/// A row of each image in the folders of a folder, each of which holds the images of a class, as pets/cat/1.jpg, in the
/// order of their paths' bytes: "image", uint8 of height x width x channels; "label", the class's folder, as text; and
/// "path", "cat/1.jpg", as text. A folder that holds images itself gives no "label".
///
/// Images are the files whose names end with .jpg, .jpeg, .png, .bmp, .ppm, .pgm or .gif, in small letters or capitals.
/// Other files are passed over, and so is what has a name that begins with '.', and a folder without images. Of a GIF
/// the first picture counts, of a PNG of 16 bits the upper 8, and transparency is left out. The bytes say of which
/// format an image is, not its name. What a camera says of its rotation is not applied.
///
/// Threads: decodes in threads of its own.
/// Errors: `invalid_config` for options out of range; `not_found` where there is no such folder or no image in it, and
///         for one that was removed meanwhile; `invalid_data`, with the file, for what cannot be decoded, as files that
///         are cut short, for more than `max_pixels`, and another size than the first one's; `invalid_data` for images
///         both beside folders of them and in these, and for folders within those of classes; `io`, also for a file
///         that was changed meanwhile. stb_image finds damage, and is no wall against files that are made to attack it.
/// Cost: the memory of all rows, and of one file and its pixels for each thread.
/// Source: torchvision's ImageFolder for the folders; Pillow 10's `Image.resize(size, BILINEAR)`, of which resized
///         images have the values; stb_image for the formats.
[[nodiscard]] inline auto read_images(std::filesystem::path const& folder, ImagesOptions const& options = {})
    -> Dataset {
  detail::ImageReader reader{folder, options};
  return reader.read(0, reader.rows());
}

/// The same rows in blocks, of which one is in memory at a time: for folders that are larger than memory. Each has
/// `rows` rows, but for the last one. "label" has the classes of the whole folder in each block.
///
/// Errors: when the range is made, `invalid_config`, `invalid_call` for 0 rows, and those of `read_images` for a
///         folder. When a block is read, those for images; when it is skipped, those for files that were removed or
///         changed.
[[nodiscard]] inline auto image_blocks(std::filesystem::path const& folder, ImagesOptions const& options = {},
                                       std::size_t rows = 256) -> DatasetBlocks {
  if (rows == 0) throw Error{Errc::invalid_call, "image_blocks", "blocks of 0 rows", "write 256, or any other number"};
  auto const reader = std::make_shared<detail::ImageReader>(folder, options);
  auto const at = std::make_shared<std::size_t>(0);
  auto const begin = [reader, rows, at] { return std::exchange(*at, *at + std::min(rows, reader->rows() - *at)); };
  auto const next = [reader, at, begin]() -> std::optional<Dataset> {
    auto const first = begin();
    if (first == *at) return std::nullopt;
    return reader->read(first, *at);
  };
  auto const skip = [reader, at, begin] {
    auto const first = begin();
    reader->check(first, *at);
    return first != *at;
  };
  return {fmt::format("{} in blocks of {} rows", reader->source(), rows),
          next,
          {.check = [reader] { reader->check(0, reader->rows()); }, .skip = skip}};
}

}  // namespace raytrain
