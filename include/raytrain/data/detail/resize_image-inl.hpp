// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/resize_image.hpp>

namespace raytrain::detail {

/// What one pixel of a line is made of.
struct PixelWeights {
  std::size_t first = 0;  ///< Pixel of the line that was.
  std::vector<std::int32_t> weights{};
};

/// Weights add up to this, so that 255 times them and a half go into 32 bits.
inline constexpr int weight_bits = 22;

[[nodiscard]] RAYTRAIN_INLINE auto pixel_weights(std::size_t from, std::size_t to) -> std::vector<PixelWeights> {
  auto const scale = static_cast<double>(from) / static_cast<double>(to);
  auto const reach = std::max(scale, 1.0);
  std::vector<PixelWeights> pixels(to);
  std::vector<double> shares;
  for (std::size_t i = 0; i < to; ++i) {
    auto const center = (static_cast<double>(i) + 0.5) * scale;
    auto const first = static_cast<std::size_t>(std::max(center - reach + 0.5, 0.0));
    auto const last = std::min(static_cast<std::size_t>(center + reach + 0.5), from);
    shares.clear();
    double sum = 0;
    for (auto at = first; at < last; ++at) {
      auto const distance = std::abs((static_cast<double>(at) - center + 0.5) * (1.0 / reach));
      shares.push_back(distance < 1 ? 1 - distance : 0);
      sum += shares.back();
    }
    pixels[i].first = first;
    for (auto const share : shares) {
      pixels[i].weights.push_back(static_cast<std::int32_t>(0.5 + share / sum * (1 << weight_bits)));
    }
  }
  return pixels;
}

[[nodiscard]] RAYTRAIN_INLINE auto weighted_mean(std::int32_t sum) -> std::uint8_t {
  return static_cast<std::uint8_t>(std::min((sum + (1 << (weight_bits - 1))) >> weight_bits, 255));
}

template <std::size_t channels>
void resize_lines(std::span<std::uint8_t const> from, std::size_t width, std::span<std::uint8_t> to,
                  std::span<PixelWeights const> pixels) {
  auto* out = to.data();
  for (std::size_t at = 0; at < from.size(); at += width * channels) {
    for (auto const& pixel : pixels) {
      auto const* in = from.data() + at + pixel.first * channels;
      std::int32_t sums[channels]{};
      for (auto const weight : pixel.weights) {
        for (auto& sum : sums) sum += weight * *in++;
      }
      for (auto const sum : sums) *out++ = weighted_mean(sum);
    }
  }
}

RAYTRAIN_INLINE void resize_columns(std::span<std::uint8_t const> from, std::size_t line_bytes,
                                    std::span<std::uint8_t> to, std::span<PixelWeights const> lines) {
  std::vector<std::int32_t> sums(line_bytes);
  auto* out = to.data();
  for (auto const& line : lines) {
    std::ranges::fill(sums, 0);
    auto const* in = from.data() + line.first * line_bytes;
    for (auto const weight : line.weights) {
      for (auto& sum : sums) sum += weight * *in++;
    }
    out = std::ranges::transform(sums, out, weighted_mean).out;
  }
}

RAYTRAIN_INLINE void resize_image(std::span<std::uint8_t const> from, ImageShape const& from_shape,
                                  std::span<std::uint8_t> to, ImageShape const& to_shape) {
  auto const line_bytes = to_shape.width * to_shape.channels;
  std::vector<std::uint8_t> narrowed;
  if (from_shape.width != to_shape.width) {
    narrowed.resize(from_shape.height * line_bytes);
    auto const pixels = pixel_weights(from_shape.width, to_shape.width);
    auto const resize = to_shape.channels == 1 ? &resize_lines<1> : &resize_lines<3>;
    resize(from, from_shape.width, narrowed, pixels);
    from = narrowed;
  }
  if (from_shape.height == to_shape.height) {
    std::ranges::copy(from, to.begin());
  } else {
    resize_columns(from, line_bytes, to, pixel_weights(from_shape.height, to_shape.height));
  }
}

}  // namespace raytrain::detail
