// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// Smaller ones are packed together.
inline constexpr std::size_t large_tensor_bytes = 65536;

/// Gives every rank the values that `root` has in these tensors, bit by bit whatever their types.
///
/// Errors: those of the collective: `rank_mismatch` when a rank's tensors have other sizes.
/// Cost:   one broadcast for all small tensors together, and one for each large one, in place.
template <class C>
void broadcast_tensors(C& collective, std::vector<at::Tensor> const& tensors, Rank root) {
  constexpr std::size_t alignment = 16;
  auto const is_large = [](at::Tensor const& tensor) {
    return tensor.nbytes() >= large_tensor_bytes && tensor.device().is_cpu() && tensor.is_contiguous();
  };
  torch::NoGradGuard const no_grad;

  std::size_t packed_bytes = 0;
  for (auto const& tensor : tensors) {
    if (is_large(tensor)) {
      collective.broadcast(std::span{static_cast<std::uint8_t*>(tensor.data_ptr()), tensor.nbytes()}, root);
    } else {
      packed_bytes += (tensor.nbytes() + alignment - 1) / alignment * alignment;
    }
  }
  if (packed_bytes == 0) return;

  std::vector<std::uint8_t> packed(packed_bytes);
  auto const for_each_small = [&](auto const& action) {
    auto* at = packed.data();
    for (auto const& tensor : tensors) {
      if (is_large(tensor) || tensor.numel() == 0) continue;
      action(tensor, torch::from_blob(at, tensor.sizes(), tensor.scalar_type()));
      at += (tensor.nbytes() + alignment - 1) / alignment * alignment;
    }
  };
  if (collective.rank() == root) {
    for_each_small([](at::Tensor const& tensor, at::Tensor const& copy) { copy.copy_(tensor); });
  }
  collective.broadcast(std::span{packed}, root);
  if (collective.rank() != root) {
    for_each_small([](at::Tensor const& tensor, at::Tensor const& copy) { tensor.copy_(copy); });
  }
}

}  // namespace raytrain::detail
