// SPDX-License-Identifier: Apache-2.0
// Trainings that are stopped in the middle of an epoch, and go on.
#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/testing/random_seed.hpp>
#include <raytrain/trainer.hpp>

#include "torch_run.hpp"

using namespace raytrain;

namespace {

constexpr int steps_of_epoch = 20;
constexpr int epochs_to_train = 3;

struct Stopper : Callback {
  void on_start(RunInfo const& info) override { stop = info.request_stop; }
  std::function<void()> stop;
};

auto points() -> Datasets {
  std::vector<float> x;
  std::vector<float> y;
  for (int i = 0; i < steps_of_epoch * 2 * 8; ++i) {
    x.push_back(static_cast<float>(i % 17) / 17);
    y.push_back(static_cast<float>(i % 23) / 23);
  }
  return {{"train", Dataset::from_columns({{"x", x}, {"y", y}})}, {"valid", Dataset::from_columns({{"x", x}})}};
}

/// Trains in the folder until the end, stopped after each of these steps, which count from 1 over all epochs. Gives the
/// parameters.
auto trained_with_stops(std::set<int> const& stops, DataConfig const& data = {}) -> Tensors {
  TemporaryFolder const folder;
  auto const stopper = std::make_shared<Stopper>();
  Tensors parameters;
  auto const train = [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 4}; });
    torch::optim::Adam optimizer{model->parameters(), 1e-2};
    auto shard = ctx.dataset_shard("train");
    auto valid = ctx.dataset_shard("valid");
    for (auto epoch = ctx.restore(shard, model, optimizer); epoch < epochs_to_train; ++epoch) {
      auto loss_sum = 0.0;
      for (auto const& batch : shard.batches({.batch_size = 8, .epoch = epoch})) {
        optimizer.zero_grad();
        auto const loss = (model->forward(batch["x"].unsqueeze(1)) - batch["y"].unsqueeze(1)).square().mean();
        loss.backward();
        optimizer.step();
        loss_sum += loss.item<double>();
        for (auto const& rows : valid.batches({.batch_size = 100})) (void)rows;  // an evaluation within the epoch
        auto const next = shard.position();
        if (stops.contains(static_cast<int>(next.epoch) * steps_of_epoch + static_cast<int>(next.samples) / 16)) {
          stopper->stop();
          while (!ctx.stop_requested()) ctx.barrier();
        }
        if (ctx.stop_requested()) ctx.hand_over(save(model, optimizer));
      }
      ctx.report(Epoch{epoch, loss_sum}, save(model, optimizer));
    }
    if (ctx.world_rank() == Rank{0}) parameters = copies(model->parameters());
  };
  Trainer<TorchBackend> trainer{train,
                                {.scaling = {.num_workers = 2},
                                 .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
                                 .data = data,
                                 .datasets = points(),
                                 .callbacks = {stopper}}};
  std::size_t starts = 0;
  Result result;
  do {
    result = trainer.fit();
    ++starts;
  } while (result.state == RunState::aborted && starts <= stops.size());
  CHECK(result.history.size() == epochs_to_train);
  CHECK(starts == stops.size() + 1);
  return parameters;
}

}  // namespace

TEST_CASE("a training that is stopped within its epochs, again and again, ends with the bits of an undisturbed one") {
  auto const seed = testing::random_seed();
  CAPTURE(seed);
  std::mt19937_64 random{seed};
  std::set<int> stops;
  while (stops.size() < 8) stops.insert(static_cast<int>(1 + random() % (steps_of_epoch * epochs_to_train - 1)));
  CHECK(same_bits(trained_with_stops(stops), trained_with_stops({})));
}

TEST_CASE("a training is stopped within an epoch also behind a validation on a dataset that is split, too") {
  DataConfig const splits_all{.datasets_to_split = {"train", "valid"}};
  CHECK(same_bits(trained_with_stops({3, 5, 47}, splits_all), trained_with_stops({})));
}
