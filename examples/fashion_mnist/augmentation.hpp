// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>

/// Images {n, 28, 28} of bytes, each moved by up to two pixels in each direction, with black behind its edges, and half
/// of them mirrored: random crops and flips, as He et al. trained ResNets for CIFAR. Then each pixel gets noise.
inline auto augmented(torch::Tensor const& pixels, at::Generator& random) -> torch::Tensor {
  auto const padded = torch::constant_pad_nd(pixels, {2, 2, 2, 2});
  auto const draw = [&](std::int64_t bound) {
    return torch::randint(0, bound, {pixels.size(0)}, random, torch::kLong);
  };
  auto const row = draw(5);
  auto const column = draw(5);
  auto const mirrored = draw(2);
  auto const* const first_row = row.data_ptr<std::int64_t>();
  auto const* const first_column = column.data_ptr<std::int64_t>();
  auto const* const is_mirrored = mirrored.data_ptr<std::int64_t>();
  auto result = torch::empty_like(pixels);
  for (std::int64_t i = 0; i < pixels.size(0); ++i) {
    auto const crop = padded[i].narrow(0, first_row[i], pixels.size(1)).narrow(1, first_column[i], pixels.size(2));
    result[i].copy_(is_mirrored[i] != 0 ? crop.flip(1) : crop);
  }
  constexpr auto deviation = 4.0;  // of 255
  return (result + deviation * torch::randn(pixels.sizes(), random)).round().clamp(0, 255).to(torch::kByte);
}
