// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/same_on_ranks.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/detail/tensor_broadcast.hpp>
#include <raytrain/backend/torch/detail/tensor_mean.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

template <class T>
void average_in(at::ScalarType type, std::vector<at::Tensor> const& tensors, Collective& collective) {
  std::int64_t numbers = 0;
  for (auto const& tensor : tensors) numbers += tensor.numel();
  if (numbers == 0) return;
  auto memory = collective.allocate<T>(static_cast<std::size_t>(numbers));
  auto const all = torch::from_blob(memory.data(), {numbers}, type);
  auto const for_each = [&](auto const& action) {
    std::int64_t begin = 0;
    for (auto const& tensor : tensors) {
      action(tensor, all.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
      begin += tensor.numel();
    }
  };
  for_each([](at::Tensor const& tensor, at::Tensor const& part) { part.copy_(tensor); });
  collective.all_reduce(memory, ReduceOp::average);
  for_each([](at::Tensor const& tensor, at::Tensor const& part) { tensor.copy_(part); });
}

RAYTRAIN_TORCH_INLINE void average_tensors(std::vector<at::Tensor> const& tensors, Collective& collective) {
  if (collective.size() == WorldSize{1}) return;
  torch::NoGradGuard const no_grad;
  std::vector<at::Tensor> floats;
  std::vector<at::Tensor> doubles;
  std::vector<at::Tensor> others;
  for (auto const& tensor : tensors) {
    auto const numbers = tensor.is_complex() ? at::view_as_real(tensor) : tensor;
    auto& alike = !numbers.is_floating_point() ? others : numbers.scalar_type() == torch::kDouble ? doubles : floats;
    alike.push_back(numbers);
  }
  average_in<float>(torch::kFloat, floats, collective);
  average_in<double>(torch::kDouble, doubles, collective);
  broadcast_tensors(collective, others, Rank{0});
}

RAYTRAIN_TORCH_INLINE void average_model(torch::nn::Module const& module, int number, Collective& collective) {
  if (collective.size() == WorldSize{1}) return;
  std::vector<std::string> lines{fmt::format("model {}", number)};
  std::vector<at::Tensor> tensors;
  auto const add = [&](auto const& items, char const* kind) {
    for (auto const& [name, tensor] : items.pairs()) {
      if (!tensor.defined() || std::ranges::any_of(tensors, [&](auto const& each) { return each.is_same(tensor); })) {
        continue;
      }
      tensors.push_back(tensor);
      lines.push_back(fmt::format("{} '{}' {}", kind, name, shape_text(tensor.sizes(), tensor.scalar_type())));
    }
  };
  add(module.named_parameters(), "parameter");
  add(module.named_buffers(), "buffer");
  check_same_on_ranks(collective, std::move(lines), "averaging the parameters of local models",
                      "average the same models in the same order on every rank");
  average_tensors(tensors, collective);
}

}  // namespace raytrain::detail
