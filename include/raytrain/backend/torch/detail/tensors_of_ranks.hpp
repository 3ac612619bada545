// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <torch/torch.h>

#include <raytrain/backend/torch/detail/tensor_over.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// Compares what the ranks are about to do, in lines. A group operation.
///
/// Errors: `rank_mismatch` on all ranks, with the first line that rank 0 has and another rank has not.
/// Cost:   an all_gather of 8 bytes, unless they differ.
void check_same_on_ranks(Collective& collective, std::vector<std::string> lines, std::string attempted,
                         std::string remedy);

/// A model's parameters and buffers, each once, and the lines by which ranks compare them.
struct StateByLines {
  std::vector<std::string> lines;
  std::vector<at::Tensor> tensors;
};

/// Whether lines tell what decides where a gradient lies beside others.
enum class WithGradients : bool { no, yes };

/// `number`: the model's.
[[nodiscard]] auto state_by_lines(torch::nn::Module const& module, int number, WithGradients with_gradients)
    -> StateByLines;

/// Smaller ones are packed together.
inline constexpr std::size_t large_tensor_bytes = 65536;

/// Gives every rank the values that `root` has in these tensors, bit by bit whatever their types. Of a collective of
/// arrays on a device they all lie there; otherwise they may lie anywhere.
///
/// Errors: those of the collective: `rank_mismatch` when a rank's tensors have other sizes.
/// Cost:   one broadcast for all small tensors together, and one for each large one, in place.
template <class C>
void broadcast_tensors(C& collective, std::vector<at::Tensor> const& tensors, Rank root) {
  if (tensors.empty()) return;
  constexpr std::size_t alignment = 16;
  auto const device = collective.takes_device_arrays() ? tensors.front().device() : at::Device{at::kCPU};
  auto const is_large = [&](at::Tensor const& tensor) {
    return tensor.nbytes() >= large_tensor_bytes && tensor.device() == device && tensor.is_contiguous();
  };
  auto const broadcast = [&](at::Tensor const& tensor) {
    collective.broadcast(std::span{static_cast<std::uint8_t*>(tensor.data_ptr()), tensor.nbytes()}, root);
  };
  torch::NoGradGuard const no_grad;

  std::size_t packed_bytes = 0;
  for (auto const& tensor : tensors) {
    if (is_large(tensor)) {
      broadcast(tensor);
    } else {
      // The remainder is for no tensor: it makes the sum another one where a rank's tensor has another size.
      packed_bytes += (tensor.nbytes() + alignment - 1) / alignment * alignment + tensor.nbytes() % alignment;
    }
  }
  if (packed_bytes == 0) return;

  auto const packed = at::zeros({static_cast<std::int64_t>(packed_bytes)}, at::TensorOptions{at::kByte}.device(device));
  auto const for_each_small = [&](auto const& action) {
    auto* at = static_cast<std::byte*>(packed.data_ptr());
    for (auto const& tensor : tensors) {
      if (is_large(tensor) || tensor.numel() == 0) continue;
      action(tensor, tensor_over(at, tensor.sizes(), tensor.scalar_type(), device));
      at += (tensor.nbytes() + alignment - 1) / alignment * alignment;
    }
  };
  if (collective.rank() == root) {
    for_each_small([](at::Tensor const& tensor, at::Tensor const& copy) { copy.copy_(tensor); });
  }
  broadcast(packed);
  if (collective.rank() != root) {
    // As of a large one, autograd is not told: a graph that another forward has made may be waiting for its backward.
    for_each_small([](at::Tensor const& tensor, at::Tensor const& copy) { tensor.variable_data().copy_(copy); });
  }
}

/// Makes floating-point and complex tensors their mean over all ranks, the same bits on each, and others rank 0's.
/// Those of 16 bits are added in 32, and rounded once.
///
/// Errors: those of the collective: `rank_mismatch` when a rank's tensors have other sizes.
/// Cost:   one all_reduce for each of float and double, and the memory of its array; a broadcast for others.
void average_tensors(std::vector<at::Tensor> const& tensors, Collective& collective);

/// The same for a model's parameters and buffers, each once. `number`: the model's, which the ranks compare.
///
/// Errors: also `rank_mismatch` where a rank has another model, with what rank 0 and another one have.
void average_model(torch::nn::Module const& module, int number, Collective& collective);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/tensors_of_ranks-inl.hpp>
#endif
