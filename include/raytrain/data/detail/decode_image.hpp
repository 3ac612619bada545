// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <stb/stb_image.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <raytrain/core/error.hpp>
#include <raytrain/data/detail/resize_image.hpp>

namespace raytrain::detail {

/// stb_image counts them by int.
inline constexpr std::size_t most_image_bytes = std::numeric_limits<int>::max();

/// The bytes of an image's file.
struct EncodedImage {
  std::string attempted;                ///< Of errors: "read image 'cat/1.jpg'".
  std::span<std::uint8_t const> bytes;  ///< At most `most_image_bytes`.
  std::size_t channels;                 ///< To be decoded: 1 or 3.
  std::uint64_t max_pixels;
};

/// Gives stb_image the bytes, and knows whether it asked for more: of some formats it then makes pixels up.
class ImageBytes {
 public:
  explicit ImageBytes(std::span<std::uint8_t const> bytes) : left_{bytes} {}

  [[nodiscard]] auto ran_out() const noexcept -> bool { return ran_out_; }

  [[nodiscard]] static auto callbacks() noexcept -> ::stbi_io_callbacks {
    return {[](void* user, char* to, int size) { return static_cast<ImageBytes*>(user)->read(to, size); },
            [](void* user, int size) { static_cast<ImageBytes*>(user)->skip(size); },
            [](void* user) { return static_cast<ImageBytes*>(user)->left_.empty() ? 1 : 0; }};
  }

 private:
  auto read(char* to, int size) -> int {
    auto const given = std::min(static_cast<std::size_t>(std::max(size, 0)), left_.size());
    // It fills a buffer of its own with what there is, and anything else with what must be there.
    if (buffer_ == nullptr) buffer_ = to;
    if (given == 0 || (to != buffer_ && given < static_cast<std::size_t>(size))) ran_out_ = true;
    std::memcpy(to, left_.data(), given);
    left_ = left_.subspan(given);
    return static_cast<int>(given);
  }

  void skip(int size) { left_ = left_.subspan(std::min(static_cast<std::size_t>(std::max(size, 0)), left_.size())); }

  std::span<std::uint8_t const> left_;
  char const* buffer_ = nullptr;
  bool ran_out_ = false;
};

[[nodiscard]] inline auto undecoded(EncodedImage const& image, std::string_view why) -> Error {
  return {Errc::invalid_data, image.attempted, fmt::format("it cannot be decoded: {}", why),
          "look at the file, and save it anew or remove it"};
}

/// What stb_image says of the last call of this thread.
[[nodiscard]] inline auto undecoded(EncodedImage const& image) -> Error {
  auto const* const reason = ::stbi_failure_reason();
  std::string_view why = reason == nullptr ? "" : reason;
  if (why == "outofmem") why = "it is damaged, or memory is short";
  // That one begins with the chunk's name, which may have any four bytes, and is one text for all threads.
  if (why.size() <= 4 || why.ends_with("PNG chunk not known")) why = "it is damaged";
  return undecoded(image, why);
}

/// Of other formats stb_image knows some by nothing, so that it would take damaged files for them.
[[nodiscard]] inline auto has_known_format(std::string_view bytes) -> bool {
  constexpr std::array<std::string_view, 7> begins{"\xFF\xD8", "\x89PNG\r\n\x1A\n", "BM", "P5", "P6", "GIF87a",
                                                   "GIF89a"};
  return std::ranges::any_of(begins, [&](std::string_view begin) { return bytes.starts_with(begin); });
}

/// The largest value that a PGM or PPM may have, which stands for white; 0 where its header is damaged.
[[nodiscard]] inline auto white_of_pnm(std::string_view text) -> unsigned {
  unsigned number = 0;
  text.remove_prefix(2);
  for (auto count = 0; count < 3; ++count) {  // width, height and that one
    while (!text.empty() && (text[0] == '#' || text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r'))) {
      text.remove_prefix(text[0] == '#' ? std::min(text.find_first_of("\r\n"), text.size() - 1) + 1 : 1);
    }
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{}) return 0;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return number;
}

/// What its header says, with the channels that are asked for.
///
/// Errors: `invalid_data` for what is no image that `read_images` reads, and for more pixels than `max_pixels`.
[[nodiscard]] inline auto image_shape(EncodedImage const& image) -> ImageShape {
  std::string_view const text{reinterpret_cast<char const*>(image.bytes.data()), image.bytes.size()};
  if (text.empty()) throw undecoded(image, "it is empty");
  if (!has_known_format(text)) throw undecoded(image, "its first bytes are none of JPEG, PNG, BMP, GIF, PPM or PGM");
  auto const size = static_cast<int>(text.size());
  int width = 0;
  int height = 0;
  int channels = 0;
  // Why, it does not say, since it then tries all other formats.
  if (::stbi_info_from_memory(image.bytes.data(), size, &width, &height, &channels) == 0) {
    throw undecoded(image, "its header is damaged");
  }
  // stb_image 2.27 reads beyond its memory there.
  if (text.starts_with('P') && ::stbi_is_16_bit_from_memory(image.bytes.data(), size) != 0) {
    throw undecoded(image, "it has 16 bits a channel, with which only PNG images are read");
  }
  if (auto const white = text.starts_with('P') ? white_of_pnm(text) : 255; white != 255) {
    throw undecoded(image,
                    white == 0 ? "its header is damaged" : fmt::format("its white is {}, and only 255 is read", white));
  }
  if (width < 1 || height == 0) throw undecoded(image, fmt::format("it is {} wide and {} high", width, height));
  // A BMP whose lines come from above has its height below 0.
  ImageShape const shape{static_cast<std::size_t>(height < 0 ? -std::int64_t{height} : height),
                         static_cast<std::size_t>(width), image.channels};
  if (shape.height * shape.width <= image.max_pixels) return shape;
  throw Error{Errc::invalid_data, image.attempted,
              fmt::format("its header promises {} x {} pixels, and ImagesOptions::max_pixels is {}", shape.height,
                          shape.width, image.max_pixels),
              "set it higher if you trust the file, or remove the file"};
}

/// Puts its pixels into `out`, resized where it has another size than `shape`.
///
/// Errors: as of `image_shape`; `invalid_data` for what is damaged or cut short.
inline void decode_image(EncodedImage const& image, ImageShape const& shape, std::span<std::uint8_t> out) {
  auto const own = image_shape(image);  // before memory is taken for its pixels
  if (own.height * shape.width > image.max_pixels) {
    throw Error{
        Errc::invalid_data, image.attempted,
        fmt::format("it has {} x {} pixels, and {} x {} on its way to {} x {}, where ImagesOptions::max_pixels "
                    "is {}",
                    own.height, own.width, own.height, shape.width, shape.height, shape.width, image.max_pixels),
        "set it higher if you trust the file, or remove the file"};
  }
  // Whatever the program has set for itself.
  ::stbi_set_flip_vertically_on_load_thread(0);
  ::stbi_convert_iphone_png_to_rgb_thread(1);
  ImageBytes bytes{image.bytes};
  auto const callbacks = ImageBytes::callbacks();
  int width = 0;
  int height = 0;
  int channels = 0;
  std::unique_ptr<::stbi_uc, decltype(&::stbi_image_free)> const pixels{
      ::stbi_load_from_callbacks(&callbacks, &bytes, &width, &height, &channels, static_cast<int>(image.channels)),
      &::stbi_image_free};
  if (bytes.ran_out()) throw undecoded(image, "it is cut short");
  if (pixels == nullptr) throw undecoded(image);
  ImageShape const decoded{static_cast<std::size_t>(height), static_cast<std::size_t>(width), image.channels};
  resize_image({pixels.get(), decoded.bytes()}, decoded, out, shape);
}

}  // namespace raytrain::detail
