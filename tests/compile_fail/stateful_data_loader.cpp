// SPDX-License-Identifier: Apache-2.0
// A dataset that keeps an order of its own cannot be divided among workers by indices.
// expect-error: raytrain: a data loader asks for examples by their indices; a stateful dataset
#include <torch/torch.h>

#include <cstddef>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/torch_context.hpp>

namespace datasets = torch::data::datasets;

using OptionalSize = decltype(std::declval<datasets::MNIST const&>().size());

struct Numbers : datasets::BatchDataset<Numbers, std::vector<int>> {
  auto get_batch(torch::ArrayRef<std::size_t> indices) -> std::vector<int> override {
    return std::vector<int>(indices.size());
  }
  [[nodiscard]] auto size() const -> OptionalSize override { return 4; }
};

void ok(raytrain::TorchContext& ctx) { (void)ctx.data_loader("train", Numbers{}); }

#ifdef RAYTRAIN_EXPECT_ERROR
struct Stream : datasets::StatefulDataset<Stream, std::vector<int>> {
  auto get_batch(std::size_t size) -> BatchType override { return std::vector<int>(size); }
  [[nodiscard]] auto size() const -> OptionalSize override { return 4; }
  void reset() override {}
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}
};

void wrong(raytrain::TorchContext& ctx) { (void)ctx.data_loader("train", Stream{}); }
#endif
