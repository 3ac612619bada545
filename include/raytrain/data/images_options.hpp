// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace raytrain {

/// How a folder of images is read.
struct ImagesOptions {
  /// Of all rows, up to 65'535; each image is resized to it, whatever its proportions. 0 for both: all images must have
  /// the size of the first one.
  std::size_t height = 0;
  std::size_t width = 0;
  int channels = 3;  ///< 3: red, green, blue, also of grey images; 1: grey, also of coloured ones.
  /// Of one image. One whose header promises more is refused before its pixels are decoded, for which memory would go.
  std::uint64_t max_pixels = 100'000'000;
  int threads = 0;  ///< Not negative. So many decode at the same time; 0: as many as cores may be used.

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/images_options-inl.hpp>
#endif
