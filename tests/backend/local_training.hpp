// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/trainer.hpp>

#include "torch_run.hpp"

/// A batch of a worker's own, for step `step`: rows of 6 numbers, of which the last two are what is to be predicted.
[[nodiscard]] inline auto own_batch(std::uint32_t rank, int step) -> torch::Tensor {
  auto generator = at::detail::createCPUGenerator(1000 * (rank + 1) + static_cast<std::uint64_t>(step));
  return torch::randn({5, 6}, generator);
}

/// The loss of a net from 4 numbers to 2.
template <class M>
[[nodiscard]] auto loss_of_own_batch(M& model, std::uint32_t rank, int step) -> torch::Tensor {
  auto const batch = own_batch(rank, step);
  return torch::mse_loss(model->forward(batch.narrow(1, 0, 4)), batch.narrow(1, 4, 2));
}

/// What each worker has left, by rank.
class ByRank {
 public:
  void put(raytrain::TorchContext const& ctx, Tensors const& tensors) {
    std::lock_guard const lock{mutex_};
    all_.resize(ctx.world_size().value);
    all_[ctx.world_rank().value] = copies(tensors);
  }
  [[nodiscard]] auto all() const -> std::vector<Tensors> const& { return all_; }

 private:
  std::mutex mutex_;
  std::vector<Tensors> all_;
};

/// Texts of the errors with which such a run ends, of which each worker has one.
[[nodiscard]] inline auto failures_of(int workers, TrainTorch const& train) -> std::vector<std::string> {
  try {
    run_once({.workers = workers}, train);
    FAIL_CHECK("must fail");
  } catch (raytrain::TrainingFailed const& failed) {
    std::vector<std::string> texts;
    for (auto const& failure : failed.failures()) texts.push_back(failure.text());
    return texts;
  }
  return {};
}
