// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include <raytrain/backend/torch/detail/memory_overlap.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void check_own_memory(torch::nn::Module const& module, std::vector<at::Tensor> const& moved) {
  struct Extent {
    std::byte const* begin;
    std::byte const* end;
    std::string name;
    bool is_moved;
  };
  std::unordered_set<c10::TensorImpl const*> moving;
  for (auto const& tensor : moved) moving.insert(tensor.unsafeGetTensorImpl());
  std::vector<Extent> extents;
  std::unordered_set<c10::TensorImpl const*> known;
  auto const add = [&](auto const& items) {
    for (auto const& item : items) {
      auto const& tensor = item.value();
      if (tensor.numel() == 0 || !tensor.has_storage() || !known.insert(tensor.unsafeGetTensorImpl()).second) continue;
      std::int64_t last = 0;  // element behind the first one
      for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
      auto const* const begin = static_cast<std::byte const*>(tensor.data_ptr());
      auto const bytes = static_cast<std::size_t>(last + 1) * tensor.element_size();
      extents.push_back({begin, begin + bytes, item.key(), moving.contains(tensor.unsafeGetTensorImpl())});
    }
  };
  add(module.named_parameters());
  add(module.named_buffers());
  std::ranges::sort(extents, {}, &Extent::begin);
  Extent const* furthest = nullptr;  // of those before
  Extent const* furthest_moved = nullptr;
  auto const is_further = [](Extent const& extent, Extent const* than) {
    return than == nullptr || extent.end > than->end;
  };
  for (auto const& extent : extents) {
    auto const* const before = extent.is_moved ? furthest : furthest_moved;
    if (is_further(extent, furthest)) furthest = &extent;
    if (extent.is_moved && is_further(extent, furthest_moved)) furthest_moved = &extent;
    if (before == nullptr || before->end <= extent.begin) continue;
    throw Error{
        Errc::backend, "preparing an optimizer",
        "'" + before->name + "' and '" + extent.name + "' lie in the same memory, which a sharded optimizer would end",
        "register one tensor under both names, or make an optimizer on each worker, from model->parameters()"};
  }
}

}  // namespace raytrain::detail
