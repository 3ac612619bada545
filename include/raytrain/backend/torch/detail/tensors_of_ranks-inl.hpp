// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/detail/tensors_of_ranks.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/object_exchange.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void check_same_on_ranks(Collective& collective, std::vector<std::string> lines,
                                               std::string attempted, std::string remedy) {
  if (collective.size() == WorldSize{1}) return;
  lines.emplace_back("nothing more");
  std::uint64_t digest[] = {0};
  for (auto const& line : lines) {
    for (auto const letter : line) digest[0] = stream_seed(digest[0], static_cast<unsigned char>(letter));
    digest[0] = stream_seed(digest[0], line.size());
  }
  std::vector<std::uint64_t> all(collective.size().value);
  auto const gather = [&](std::uint64_t const(&own)[1]) {
    collective.all_gather(std::span<std::uint64_t const>{own}, std::span<std::uint64_t>{all});
  };
  gather(digest);
  if (std::ranges::count(all, all.front()) == std::ssize(all)) return;

  auto const first = broadcast_object(collective, lines, Rank{0});
  std::uint64_t const line[] = {static_cast<std::uint64_t>(std::ranges::mismatch(lines, first).in1 - lines.begin())};
  gather(line);
  for (std::uint32_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == first.size()) continue;
    auto const of_rank = broadcast_object(collective, lines, Rank{rank});
    throw Error{Errc::rank_mismatch, std::move(attempted),
                fmt::format("rank 0 has {}, and rank {} has {}", first[all[rank]], rank, of_rank[all[rank]]),
                std::move(remedy)};
  }
}

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

RAYTRAIN_TORCH_INLINE auto state_by_lines(torch::nn::Module const& module, int number, WithGradients with_gradients)
    -> StateByLines {
  StateByLines state{.lines = {fmt::format("model {}", number)}, .tensors = {}};
  auto const add = [&](auto const& items, char const* kind) {
    for (auto const& [name, tensor] : items.pairs()) {
      auto const is_same = [&](at::Tensor const& each) { return each.is_same(tensor); };
      if (!tensor.defined() || std::ranges::any_of(state.tensors, is_same)) continue;
      state.tensors.push_back(tensor);
      state.lines.push_back(fmt::format("{} '{}' {}", kind, name, shape_text(tensor.sizes(), tensor.scalar_type())));
      if (with_gradients == WithGradients::no) continue;
      if (tensor.layout() == at::kStrided && !tensor.is_contiguous())
        state.lines.back() += fmt::format(" of strides {}", fmt::join(tensor.strides(), ", "));
      if (tensor.requires_grad()) state.lines.back() += " that wants a gradient";
    }
  };
  add(module.named_parameters(), "parameter");
  add(module.named_buffers(), "buffer");
  return state;
}

RAYTRAIN_TORCH_INLINE void average_model(torch::nn::Module const& module, int number, Collective& collective) {
  if (collective.size() == WorldSize{1}) return;
  auto state = state_by_lines(module, number, WithGradients::no);
  check_same_on_ranks(collective, std::move(state.lines), "averaging the parameters of local models",
                      "average the same models in the same order on every rank");
  average_tensors(state.tensors, collective);
}

}  // namespace raytrain::detail
