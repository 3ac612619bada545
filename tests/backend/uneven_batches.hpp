// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/core/identifiers.hpp>

inline constexpr std::int64_t rows = 5;  // of each batch
inline constexpr std::int64_t columns = 4;

/// How many batches each rank has.
using Counts = std::vector<int>;

/// The rank's batch of that step; none behind its last one.
[[nodiscard]] inline auto batch_of(Counts const& counts, std::uint32_t rank, int step) -> std::optional<torch::Tensor> {
  if (step >= counts[rank]) return std::nullopt;
  auto generator = at::detail::createCPUGenerator(1000 * (rank + 1) + static_cast<std::uint64_t>(step));
  return torch::randn({rows, columns}, generator, torch::kDouble);
}

/// Those of all ranks that have one in that step.
[[nodiscard]] inline auto batches_of(Counts const& counts, int step) -> std::vector<torch::Tensor> {
  std::vector<torch::Tensor> batches;
  for (std::uint32_t rank = 0; rank < counts.size(); ++rank) {
    if (auto batch = batch_of(counts, rank, step)) batches.push_back(*batch);
  }
  return batches;
}

[[nodiscard]] inline auto most(Counts const& counts) -> int { return *std::ranges::max_element(counts); }

/// One weight, of as many elements as the input, which is its gradient.
struct WeightImpl : torch::nn::Module {
  explicit WeightImpl(std::int64_t size = 4) : w{register_parameter("w", torch::zeros({size}))} {}
  auto forward(torch::Tensor const& x) -> torch::Tensor { return (w * x).sum(); }
  torch::Tensor w;
  torch::Tensor unused = register_parameter("unused", torch::zeros({2}));
};
TORCH_MODULE(Weight);

[[nodiscard]] inline auto all(double value) -> torch::Tensor { return torch::full({4}, value); }

[[nodiscard]] inline auto is_0(raytrain::TorchContext const& ctx) -> bool {
  return ctx.world_rank() == raytrain::Rank{0};
}
