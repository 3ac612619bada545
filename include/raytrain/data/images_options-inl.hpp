// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/images_options.hpp>

namespace raytrain {

RAYTRAIN_INLINE void ImagesOptions::validate() const {
  auto const refuse = [](char const* field, std::string happened, char const* remedy) {
    return Error{Errc::invalid_config, fmt::format("ImagesOptions::{}", field), std::move(happened), remedy};
  };
  constexpr std::size_t largest = 65'535;
  if ((height == 0) != (width == 0) || height > largest || width > largest) {
    throw refuse("height and width", fmt::format("must be 1 to {}, or both 0 (got {} and {})", largest, height, width),
                 "write {.height = 224, .width = 224}");
  }
  if (channels != 1 && channels != 3) {
    throw refuse("channels", fmt::format("must be 1 or 3 (got {})", channels), "write {.channels = 3} for colours");
  }
  if (max_pixels < 1) throw refuse("max_pixels", "must be at least 1 (got 0)", "write {.max_pixels = 100'000'000}");
  if (threads < 0) {
    throw refuse("threads", fmt::format("must not be negative (got {})", threads),
                 "write {.threads = 0} for as many as cores");
  }
}

}  // namespace raytrain
