// SPDX-License-Identifier: Apache-2.0
// A dataset that keeps an order of its own cannot be divided among workers by indices.
// expect-error: raytrain: a data loader asks for examples by their indices; a stateful dataset
#include <torch/torch.h>

#include <cstddef>
#include <optional>
#include <vector>

#include <raytrain/backend/torch/torch_context.hpp>

template <class Batch>
struct Numbers : torch::data::datasets::BatchDataset<Numbers<Batch>, Batch> {
  auto get_batch(torch::ArrayRef<std::size_t> indices) -> Batch override { return std::vector<int>(indices.size()); }
  [[nodiscard]] auto size() const -> torch::optional<std::size_t> override { return 4; }
};

void ok(raytrain::TorchContext& ctx) { (void)ctx.data_loader("train", Numbers<std::vector<int>>{}); }

#ifdef RAYTRAIN_EXPECT_ERROR
void wrong(raytrain::TorchContext& ctx) {
  (void)ctx.data_loader("train", Numbers<torch::optional<std::vector<int>>>{});
}
#endif
