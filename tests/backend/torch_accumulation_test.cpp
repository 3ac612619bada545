// SPDX-License-Identifier: Apache-2.0
// Windows of batches whose gradients are averaged once.
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "../support/thrown_error.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

/// One weight whose gradient is the mean of the inputs.
struct WeightImpl : torch::nn::Module {
  torch::Tensor w = register_parameter("w", torch::zeros({4}));
  torch::Tensor unused = register_parameter("unused", torch::zeros({2}));
  auto forward(double x) -> torch::Tensor { return (w * x).sum(); }
};
TORCH_MODULE(Weight);

auto four(double value) -> torch::Tensor { return torch::full({4}, value); }

auto image_loss(torch::nn::Linear& model, TorchBatch const& batch) -> torch::Tensor {
  auto const x = batch["image"].flatten(1).to(torch::kFloat) / 255;
  return torch::nn::functional::cross_entropy(model(x), batch["label"].to(torch::kLong));
}

struct Windows {
  int workers = 2;
  std::int64_t batch_size = 16;
  int batches = 4;
  bool is_sharded = false;
  int fails_after = 0;  ///< Windows, in the first attempt; 0: never.
};

/// The parameters after three epochs, of 202 samples on two workers, with a report and a checkpoint for each window.
auto parameters_after(Windows const& windows, std::vector<int>* lengths = nullptr) -> Tensors {
  TemporaryFolder const folder;
  Tensors parameters;
  auto const loop = [&](TorchContext& ctx, torch::nn::Linear& model, auto& optimizer) {
    auto shard = ctx.dataset_shard("train");
    auto done = 0;
    auto length = 0;
    for (auto epoch = ctx.restore(shard, model, optimizer); epoch < 3; ++epoch) {
      for (auto const& batch : shard.batches({.batch_size = windows.batch_size, .epoch = epoch})) {
        auto const is_last = ctx.accumulate(windows.batches);
        optimizer.zero_grad();
        image_loss(model, batch).backward();
        ++length;
        if (!is_last) continue;
        if (lengths != nullptr && ctx.world_rank() == Rank{0}) lengths->push_back(length);
        length = 0;
        optimizer.step();
        ctx.report(Epoch{static_cast<int>(shard.position().epoch) - 1, 0}, save(model, optimizer));
        if (++done == windows.fails_after && ctx.attempt() == Attempt{1}) throw std::runtime_error{"on purpose"};
      }
    }
    if (ctx.world_rank() == Rank{0}) parameters = copies(model->parameters());
  };
  auto const train = [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
    if (windows.is_sharded) {
      auto optimizer = ctx.prepare_optimizer<torch::optim::AdamW>(model, {1e-2});
      loop(ctx, model, optimizer);
    } else {
      torch::optim::AdamW optimizer{model->parameters(), {1e-2}};
      loop(ctx, model, optimizer);
    }
  };
  Trainer<TorchBackend>{
      train,
      {.scaling = {.num_workers = windows.workers},
       .run = {.name = "run", .storage_path = folder.path(), .failure = {.max_failures = 1}, .handle_signals = false},
       .datasets = {{"train", small_images(203)}}}}
      .fit();
  return parameters;
}

void check_close(Tensors const& found, Tensors const& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(torch::allclose(found[i], expected[i], 1e-4, 1e-6));
}

/// Both workers' weight without a step, of which the gradient is `gradients`.
auto gradients_after(std::function<void(TorchContext&, Weight&)> const& action, int workers = 2) -> Tensors {
  Tensors gradients(static_cast<std::size_t>(workers));
  run_once({.workers = workers}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    action(ctx, model);
    CHECK(!model->unused.grad().defined());
    gradients[ctx.world_rank().value] = model->w.grad().clone();
  });
  return gradients;
}

auto refusal(TrainTorch const& train, RunSetup const& setup = {}) -> std::string {
  return thrown_error([&] { return run_once(setup, train).history.size(); });
}

auto of_weight(std::function<void(TorchContext&, Weight&)> action) -> TrainTorch {
  return [action = std::move(action)](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    action(ctx, model);
  };
}

}  // namespace

TEST_CASE("windows of four batches train as batches four times as large, also the shorter one of an epoch's end") {
  for (int const workers : {1, 2, 3}) {
    auto const expected = parameters_after({.workers = workers, .batch_size = 64, .batches = 1});
    for (bool const is_sharded : {false, true}) {
      CAPTURE(workers);
      CAPTURE(is_sharded);
      check_close(parameters_after({.workers = workers, .is_sharded = is_sharded}), expected);
    }
  }
}

TEST_CASE("an epoch of 7 batches has a window of 4 and one of 3, and the next epoch begins with another one") {
  std::vector<int> lengths;
  parameters_after({}, &lengths);
  CHECK(lengths == std::vector{4, 3, 4, 3, 4, 3});
}

TEST_CASE("windows of one batch have the bits of a training without them") {
  auto const trained = [](bool accumulates) {
    Tensors parameters;
    run_once({.datasets = {{"train", small_images(203)}}}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
      torch::optim::Adam optimizer{model->parameters(), 1e-2};
      for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 16})) {
        if (accumulates) CHECK(ctx.accumulate(1));
        optimizer.zero_grad();
        image_loss(model, batch).backward();
        optimizer.step();
      }
      if (ctx.world_rank() == Rank{0}) parameters = copies(model->parameters());
    });
    return parameters;
  };
  CHECK(same_bits(trained(true), trained(false)));
}

TEST_CASE("a training that fails between two windows goes on to the bits of an undisturbed one") {
  for (int const workers : {1, 2}) {
    for (bool const is_sharded : {false, true}) {
      auto const undisturbed = parameters_after({.workers = workers, .is_sharded = is_sharded});
      for (int const windows : {1, 2, 3}) {
        Windows const disturbed{.workers = workers, .is_sharded = is_sharded, .fails_after = windows};
        CHECK(same_bits(parameters_after(disturbed), undisturbed));
      }
    }
  }
}

TEST_CASE("steps stay as large when another number of workers goes on within an epoch with windows of other lengths") {
  auto const trained = [](std::vector<int> const& workers) {
    TemporaryFolder const folder;
    Tensors parameters;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      run_in(folder.path(), {.workers = workers[i], .datasets = {{"train", small_images(200)}}},
             [&](TorchContext& ctx) {
               auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
               auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model, {1e-2});
               auto shard = ctx.dataset_shard("train");
               for (auto epoch = ctx.restore(shard, model, optimizer); epoch < 2; ++epoch) {
                 for (auto const& batch : shard.batches({.batch_size = 16, .epoch = epoch})) {
                   auto const is_last = ctx.accumulate(4 / static_cast<int>(ctx.world_size().value));
                   optimizer.zero_grad();
                   image_loss(model, batch).backward();
                   if (!is_last) continue;
                   optimizer.step();
                   ctx.report(Epoch{static_cast<int>(shard.position().epoch) - 1, 0}, save(model, optimizer));
                   if (i + 1 < workers.size() && shard.position().samples == 64 * (i + 1)) return;
                 }
               }
               if (ctx.world_rank() == Rank{0}) parameters = copies(model->parameters());
             });
    }
    return parameters;
  };
  check_close(trained({2, 1, 4}), trained({4}));
}

TEST_CASE(
    "the program sees no gradient before the last batch of a window, and then the mean of all ranks and batches") {
  auto const action = [](TorchContext& ctx, Weight& model) {
    auto const rank = static_cast<double>(ctx.world_rank().value);
    for (int batch = 1; batch <= 4; ++batch) {
      auto const is_last = ctx.accumulate(4);
      model(batch + 8 * rank).backward();
      CHECK(is_last == (batch == 4));
      CHECK(model->w.grad().defined() == is_last);
    }
  };
  CHECK(same_bits(gradients_after(action), {four(6.5), four(6.5)}));  // 2.5 and 10.5
  CHECK(same_bits(gradients_after(action, 1), {four(2.5)}));
}

TEST_CASE("several backwards of a batch add up in a window, as those of one batch do") {
  auto const action = [](TorchContext& ctx, Weight& model) {
    for (int batch = 1; batch <= 2; ++batch) {
      (void)ctx.accumulate(2);
      model(batch).backward();
      model(10 * batch).backward();
    }
  };
  CHECK(same_bits(gradients_after(action), {four(16.5), four(16.5)}));
  CHECK(same_bits(gradients_after(action, 1), {four(16.5)}));
}

TEST_CASE("gradients that a program keeps, or puts in place, are added to those of the next window as they are") {
  auto const action = [](TorchContext& ctx, Weight& model) {
    for (int batch = 1; batch <= 6; ++batch) {
      (void)ctx.accumulate(3);
      if (batch == 5) model->w.mutable_grad() = four(100);
      model(batch).backward();
    }
  };
  CHECK(same_bits(gradients_after(action), {four(107), four(107)}));  // 2, then 100, then 5
}

TEST_CASE("a batch without a backward counts as zero") {
  auto const action = [](TorchContext& ctx, Weight& model) {
    for (int batch = 1; batch <= 4; ++batch) {
      (void)ctx.accumulate(4);
      if (batch != 2) model(batch).backward();
    }
  };
  CHECK(same_bits(gradients_after(action), {four(2), four(2)}));
}

TEST_CASE("a window of a program's own data ends where is_last is true, and goes on in the next epoch otherwise") {
  auto const with_end = [](TorchContext& ctx, Weight& model) {
    for (int batch = 1; batch <= 3; ++batch) {
      CHECK(ctx.accumulate(5, batch == 3) == (batch == 3));
      model(batch).backward();
    }
  };
  CHECK(same_bits(gradients_after(with_end), {four(2), four(2)}));
  auto const result = run_once({}, of_weight([](TorchContext& ctx, Weight& model) {
                                 for (int batch = 1; batch <= 7; ++batch) {
                                   CHECK(ctx.accumulate(5) == (batch == 5));
                                   model(batch).backward();
                                 }
                               }));
  CHECK(warnings_with(result,
                      "the training function has returned within a window of accumulate(5), behind batch 2 of "
                      "it, whose gradients no optimizer step had") == 1);
}

TEST_CASE("the last batch of a dataset that is looked at and left ends no window of another one") {
  TemporaryFolder const folder;
  std::vector<bool> ends;
  Trainer<TorchBackend>{[&](TorchContext& ctx) {
                          auto probed = ctx.dataset_shard("other").batches({.batch_size = 100});
                          for (auto range = ctx.dataset_shard("other").batches({.batch_size = 100});
                               auto const& probe : range) {
                            if (probe.size() > 0) break;
                          }
                          (void)*probed.begin();
                          auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
                          for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 5})) {
                            auto const is_last = ctx.accumulate(3);
                            image_loss(model, batch).backward();
                            if (ctx.world_rank() == Rank{0}) ends.push_back(is_last);
                          }
                        },
                        {.scaling = {.num_workers = 2},
                         .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
                         .data = {.datasets_to_split = {"train", "other"}},
                         .datasets = {{"train", small_images(60)}, {"other", small_images(12)}}}}
      .fit();
  // The first window may be cut short by the batch that `probed` still holds.
  CHECK(std::vector(ends.begin() + 1, ends.end()) == std::vector{false, false, true, false, true});
}

TEST_CASE("a look at another split dataset within a window changes neither its length nor its weights") {
  auto const trained = [](bool looks) {
    TemporaryFolder const folder;
    std::vector<bool> ends;
    Tensors gradients;
    Trainer<TorchBackend>{
        [&](TorchContext& ctx) {
          auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
          for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 5})) {
            auto const is_last = ctx.accumulate(3);
            image_loss(model, batch).backward();
            if (ctx.world_rank() == Rank{0}) ends.push_back(is_last);
            if (!looks) continue;
            for ([[maybe_unused]] auto const& other : ctx.dataset_shard("other").batches({.batch_size = 4})) {
            }
          }
          if (ctx.world_rank() == Rank{0}) gradients = copies({model->weight.grad()});
        },
        {.scaling = {.num_workers = 2},
         .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
         .data = {.datasets_to_split = {"train", "other"}},
         .datasets = {{"train", small_images(40)}, {"other", small_images(12)}}}}
        .fit();
    return std::pair{ends, gradients};
  };
  auto const [ends, gradients] = trained(true);
  auto const [expected_ends, expected_gradients] = trained(false);
  CHECK(ends == std::vector{false, false, true, true});
  CHECK(ends == expected_ends);
  CHECK(same_bits(gradients, expected_gradients));
}

TEST_CASE("batches of the program's own count alike in a window, also behind a validation that is left early") {
  run_once({.datasets = {{"train", small_images(60)}}}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    CHECK_FALSE(ctx.accumulate(2));
    model(2).backward();
    for ([[maybe_unused]] auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 30})) break;
    CHECK(ctx.accumulate(2));
    model(4).backward();
    CHECK(torch::equal(model->w.grad(), four(3)));
  });
}

TEST_CASE("a model that is prepared within a window, or after the first one, is averaged with it") {
  for (int const workers : {1, 2}) {
    run_once({.workers = workers}, [&](TorchContext& ctx) {
      auto first = ctx.prepare_model([] { return Weight{}; });
      (void)ctx.accumulate(2);
      first(2).backward();
      auto second = ctx.prepare_model([] { return Weight{}; });
      second(4).backward();
      (void)ctx.accumulate(2);
      first(2).backward();
      second(4).backward();
      CHECK(torch::equal(first->w.grad(), four(2)));
      CHECK(torch::equal(second->w.grad(), four(4)));
    });
  }
}

TEST_CASE("what cannot be accumulated is refused, and says what to write") {
  check_contains(refusal(of_weight([](TorchContext& ctx, Weight&) { (void)ctx.accumulate(0); })),
                 "accumulate() was called with 0 batches; give at least 1");
  check_contains(refusal(of_weight([](TorchContext& ctx, Weight&) { (void)ctx.accumulate(-4); })),
                 "accumulate() was called with -4 batches");
  check_contains(
      refusal(of_weight([](TorchContext& ctx, Weight& model) {
        (void)ctx.accumulate(4);
        model(1).backward();
        (void)ctx.accumulate(2);
      })),
      "accumulate(2) was called within a window of 4 batches, behind batch 1 of it; change the number behind "
      "a batch of which accumulate() was true");
  check_contains(
      refusal(of_weight([](TorchContext& ctx, Weight& model) {
        for (int batch = 1; batch <= 3; ++batch) {
          if (!ctx.accumulate(2)) model(batch).backward();
        }
      })),
      "model 1 had no backward in the last batch of the window before, and the gradients of earlier ones are "
      "not averaged; call backward() for each model where accumulate() is true");
  check_contains(refusal(of_weight([](TorchContext& ctx, Weight& model) {
                   for (int batch = 1; batch <= 4; ++batch) {
                     (void)ctx.accumulate(4);
                     model(batch).backward();
                     torch::NoGradGuard const no_grad;
                     model->w.add_(1);
                   }
                 })),
                 "the parameters of model 1 have changed since another backward for the same call of accumulate(), or "
                 "of its window; call accumulate() for each batch before its backward");
  check_contains(refusal(of_weight([](TorchContext& ctx, Weight& model) {
                   (void)ctx.accumulate(4);
                   model(1).backward();
                   ctx.report(Epoch{0, 0}, save(model));
                 })),
                 "is asked for within a window of accumulate(4), behind batch 1 of it");
  check_contains(refusal(of_weight([](TorchContext& ctx, Weight& model) {
                   for (int batch = 1; batch <= 2; ++batch) {
                     if (!ctx.accumulate(2)) model(batch).backward();
                   }
                   ctx.report(Epoch{0, 0}, save(model));
                 })),
                 "is asked for within a window of accumulate(2), behind batch 2 of it");
}

TEST_CASE("ranks with windows of different lengths are told, on data of the program's own too") {
  auto const text = refusal(of_weight([](TorchContext& ctx, Weight& model) {
    for (int batch = 1; batch <= 4; ++batch) {
      (void)ctx.accumulate(ctx.world_rank() == Rank{0} ? 4 : 2);
      model(batch).backward();
    }
  }));
  check_contains(text, "for backward 4 of model 1");
  check_contains(text, "for backward 2 of model 1");
  check_contains(text,
                 "make every rank run the same backwards in the same order, on as many batches of one size, and "
                 "average after as many");
}

TEST_CASE("two models with a parameter in common train without windows, and are refused in one, naming the parameter") {
  struct HeadImpl : torch::nn::Module {
    explicit HeadImpl(torch::nn::Linear trunk) : trunk_{register_module("trunk", std::move(trunk))} {}
    auto forward(torch::Tensor const& x) -> torch::Tensor { return (head_ * trunk_(x)).sum(); }
    torch::nn::Linear trunk_;
    torch::Tensor head_ = register_parameter("head", torch::ones({1}));
  };
  for (auto const workers : {1, 2}) {
    CAPTURE(workers);
    auto const train = [](TorchContext& ctx) {
      torch::nn::Linear const trunk{1, 1};
      auto const first = ctx.prepare_model(std::make_shared<HeadImpl>(trunk));
      auto const second = ctx.prepare_model(std::make_shared<HeadImpl>(trunk));
      CHECK(ctx.accumulate(1));
      first->forward(torch::ones({2, 1})).backward();
      second->forward(torch::ones({2, 1})).backward();
      CHECK(trunk->weight.grad().item<double>() == doctest::Approx(4));
      (void)ctx.accumulate(2);
    };
    auto const refused = refusal(train, {.workers = workers});
    check_contains(refused,
                   "accumulating gradients: two models have a parameter in common: 'trunk.weight' of model 2, which is "
                   "'trunk.weight' of model 1; prepare one module that holds both");
  }
}

TEST_CASE("with virtual shards a window of one batch is a step, and a longer one says how many shards to ask for") {
  auto const train = [](int batches) {
    return [=](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
      for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 5})) {
        auto const is_last = ctx.accumulate(batches);
        CHECK(is_last == batch.ends_step());
        image_loss(model, batch).backward();
      }
    };
  };
  auto const fit = [&](int batches) {
    TemporaryFolder const folder;
    Trainer<TorchBackend>{train(batches),
                          {.scaling = {.num_workers = 2, .virtual_shards = 6},
                           .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
                           .datasets = {{"train", small_images(60)}}}}
        .fit();
  };
  fit(1);
  check_contains(thrown_error([&] {
                   fit(4);
                   return 0;
                 }),
                 "accumulate(4) was called in a run of 6 virtual shards, of which each step accumulates the gradients "
                 "already; set ScalingConfig::virtual_shards to 24");
}
