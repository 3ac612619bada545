// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/backend/torch/torch_checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE auto TensorFormat::shape() const -> std::string {
  return fmt::format("{{{}}} {}", fmt::join(sizes, ", "), c10::toString(type));
}

RAYTRAIN_TORCH_INLINE auto formats_of(torch::nn::Module const& module) -> std::vector<TensorFormat> {
  std::vector<TensorFormat> formats;
  auto const add = [&](auto const& items) {
    for (auto const& item : items) {
      formats.push_back({item.key(), item.value().sizes().vec(), item.value().scalar_type()});
    }
  };
  add(module.named_parameters());
  add(module.named_buffers());
  return formats;
}

}  // namespace raytrain::detail
