// SPDX-License-Identifier: Apache-2.0
// What must hold for any bytes at all that are read as an image.
#pragma once

#include <stb/stb_image_write.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/images.hpp>

#include "data_properties.hpp"
#include "properties.hpp"

namespace raytrain::testing {

/// True if the bytes are a choice of options, which is the first one, and an image.
inline auto check_image(BytesView bytes) -> bool {
  if (bytes.empty()) return false;
  auto const choice = std::to_integer<unsigned>(bytes[0]);
  ImagesOptions options{.channels = choice % 2 == 0 ? 3 : 1, .max_pixels = 1U << 18U, .threads = 1};
  if (choice / 2 % 4 != 0) {
    options.height = 1 + choice / 8 % 8;
    options.width = 1 + choice / 64;
  }
  // A folder of one image.
  auto const folder = scratch_file().holding(bytes.subspan(1)).parent_path();
  std::filesystem::rename(scratch_file().path(), folder / "image.png");
  auto const data = unless_refused(Errc::invalid_data, [&] { return read_images(folder, options); });
  if (!data) return false;
  auto const& image = data->column("image");
  auto const& shape = image.row_shape();
  require(data->rows() == 1 && shape.size() == 3, "an image is a row of lines, pixels and channels");
  require(shape[0] * shape[1] <= options.max_pixels, "no image has more pixels than it may have");
  require(shape[2] == static_cast<std::size_t>(options.channels), "an image has the channels that were asked for");
  require(options.height == 0 || (shape[0] == options.height && shape[1] == options.width),
          "an image has the size that was asked for");
  return true;
}

/// Behind a choice, an image of 5 x 4 pixels in each format that stb writes, and others by hand.
[[nodiscard]] inline auto image_seeds() -> std::vector<Bytes> {
  using namespace std::string_view_literals;
  std::vector<Bytes> seeds;
  std::vector<std::uint8_t> pixels(std::size_t{5} * 4 * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(37 * i);
  auto const add = [&](auto const& write) {
    Bytes seed{static_cast<std::byte>(seeds.size() * 37)};
    auto const append = [](void* to, void* data, int size) {
      auto const* const first = static_cast<std::byte const*>(data);
      static_cast<Bytes*>(to)->insert(static_cast<Bytes*>(to)->end(), first, first + size);
    };
    require(write(append, static_cast<void*>(&seed)) != 0, "stb writes an image");
    seeds.push_back(seed);
  };
  add([&](auto append, void* to) { return ::stbi_write_png_to_func(append, to, 5, 4, 3, pixels.data(), 15); });
  add([&](auto append, void* to) { return ::stbi_write_png_to_func(append, to, 5, 4, 1, pixels.data(), 5); });
  add([&](auto append, void* to) { return ::stbi_write_jpg_to_func(append, to, 5, 4, 3, pixels.data(), 90); });
  add([&](auto append, void* to) { return ::stbi_write_bmp_to_func(append, to, 5, 4, 3, pixels.data()); });
  for (auto& seed : seeds_of({"\0P6 2 1 255\nabcdef"sv, "\1P5\n# x\n2 2\n255\nabcd"sv,
                              "\2GIF89a\1\0\1\0\x80\0\0\0\0\0\xFF\xFF\xFF,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;"sv})) {
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

}  // namespace raytrain::testing
