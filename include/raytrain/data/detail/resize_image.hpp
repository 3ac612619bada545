// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace raytrain::detail {

/// Pixels line by line, each of so many bytes.
struct ImageShape {
  std::size_t height = 0;
  std::size_t width = 0;
  std::size_t channels = 0;

  [[nodiscard]] auto bytes() const noexcept -> std::size_t { return height * width * channels; }
  friend auto operator==(ImageShape const&, ImageShape const&) -> bool = default;
};

/// Each pixel is the mean of those around its place, weighted by how near they are: of two in each direction where the
/// image grows, of all that become one where it shrinks. No extent is 0, and the channels of both are the same.
///
/// Cost: a copy of the lines as they were, in the new width.
/// Source: Pillow 10's `Image.resize(size, BILINEAR)`, to the bit, in integers, so that all hosts make the same rows.
///         Pillow 13 may shrink the height before the width, which rounds in another order.
void resize_image(std::span<std::uint8_t const> from, ImageShape const& from_shape, std::span<std::uint8_t> to,
                  ImageShape const& to_shape);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/resize_image-inl.hpp>
#endif
