// SPDX-License-Identifier: Apache-2.0
// Errors of workers that have different numbers of batches.
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/sync_batch_norm.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "local_training.hpp"
#include "others_stopped.hpp"
#include "torch_run.hpp"
#include "uneven_batches.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

/// What both of two ranks get from `train`, of a model that is prepared.
template <class M>
auto refused(std::function<void(TorchContext&, M&)> const& train) -> std::string {
  std::vector<std::string> errors(2);
  run_once({}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return M{}; });
    errors[ctx.world_rank().value] = thrown_error([&] {
      train(ctx, model);
      return 0;
    });
  });
  CHECK(errors[0] == errors[1]);
  return errors[0];
}

}  // namespace

TEST_CASE("shadow_backward is refused where this worker has not told join that it has no batch") {
  auto const expected = [](std::string const& happened) {
    return "invalid_call: a backward without a batch: shadow_backward() was called " + happened +
           "; call it where ctx.join(has_batch) was true and has_batch is false";
  };
  CHECK(refused<Weight>([](TorchContext& ctx, Weight& model) { ctx.shadow_backward(model); }) ==
        expected("without join(), or when it was false"));
  CHECK(refused<Weight>([](TorchContext& ctx, Weight& model) {
          CHECK(ctx.join(is_0(ctx)));
          CHECK_FALSE(ctx.join(false));
          ctx.shadow_backward(model);
        }) == expected("without join(), or when it was false"));
  CHECK(refused<Weight>([](TorchContext& ctx, Weight& model) {
          CHECK(ctx.join(true));
          ctx.shadow_backward(model);
        }) == expected("by a worker that has a batch, as it has told join()"));
}

TEST_CASE("a backward of a worker that has told join that it has no batch is refused, and is possible later") {
  run_once({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    CHECK(ctx.join(is_0(ctx)));
    if (is_0(ctx)) {
      model(all(3)).backward();
    } else {
      CHECK(thrown_error([&] {
              model(all(3)).backward();
              return 0;
            }) ==
            "invalid_call: averaging gradients: backward() was called for model 1 by a worker that has no batch, as it "
            "has told join(); call ctx.shadow_backward(model) in its place, or give join() true");
      ctx.shadow_backward(model);
    }
    CHECK(torch::equal(model->w.grad(), all(3)));
    CHECK(ctx.join(!is_0(ctx)));
    model->zero_grad();
    is_0(ctx) ? ctx.shadow_backward(model) : model(all(4)).backward();
    CHECK(torch::equal(model->w.grad(), all(4)));
  });
}

TEST_CASE("models that a rank without a batch cannot take part in are refused") {
  // Rank 0, which has a batch, is not in it.
  auto const on_rank_1 = [](auto const& make, auto const& change) {
    std::string error;
    run_once({}, [&](TorchContext& ctx) {
      auto model = make(ctx);
      CHECK(ctx.join(is_0(ctx)));
      if (is_0(ctx)) return;
      change(ctx, model);
      error = thrown_error([&] {
        ctx.shadow_backward(model);
        return 0;
      });
    });
    return error;
  };
  auto const nothing = [](auto&&...) {};
  auto const not_averaged = std::string{
      "invalid_call: a backward without a batch: its model is a local one, or is not prepared, so that a backward of "
      "it exchanges nothing; make the model by ctx.prepare_model(), and give what that returns"};
  CHECK(on_rank_1([](TorchContext&) { return Weight{}; }, nothing) == not_averaged);
  CHECK(on_rank_1([](TorchContext& ctx) { return ctx.prepare_local_model([] { return Weight{}; }); }, nothing) ==
        not_averaged);
  CHECK(on_rank_1(
            [](TorchContext& ctx) {
              auto model = ctx.prepare_model([] { return Weight{}; });
              (void)ctx.prepare_local_model(model);
              return model;
            },
            nothing) == not_averaged);
  auto const with_norm = [](TorchContext& ctx) {
    return ctx.prepare_model([] { return torch::nn::Sequential{torch::nn::Linear{4, 4}, SyncBatchNorm{4}}; });
  };
  CHECK(on_rank_1(with_norm, nothing) ==
        "invalid_call: a backward without a batch: model 1 has a SyncBatchNorm, whose forward exchanges as well; take "
        "torch::nn::BatchNorm1d, 2d or 3d, or give every worker as many batches");
  CHECK(on_rank_1([](TorchContext& ctx) { return ctx.prepare_model([] { return Weight{}; }); },
                  [](TorchContext& ctx, Weight&) { CHECK_FALSE(ctx.accumulate(4)); }) ==
        "invalid_call: a backward without a batch: shadow_backward() was called within a window of accumulate(4); call "
        "accumulate() for batches alone, of which this worker has none");

  run_once({}, [&](TorchContext& ctx) {  // a SyncBatchNorm in eval mode exchanges nothing
    auto model = with_norm(ctx);
    model->eval();
    CHECK(ctx.join(is_0(ctx)));
    is_0(ctx) ? model->forward(torch::ones({2, 4})).sum().backward() : ctx.shadow_backward(model);
    CHECK(model->parameters()[0].grad().defined());
  });
}

TEST_CASE("join is refused with virtual shards, and where a window of accumulated batches is not averaged") {
  TemporaryFolder const folder;
  Trainer<TorchBackend> trainer{[](TorchContext& ctx) {
                                  CHECK(thrown_error([&] { return ctx.join(true); }) ==
                                        "invalid_call: joining workers of which some have no batch: the run has 4 "
                                        "virtual shards, each of which has as many batches; take batches by "
                                        "ctx.dataset_shard(...).batches(...), or leave ScalingConfig::virtual_shards "
                                        "out");
                                },
                                {.scaling = {.num_workers = 2, .virtual_shards = 4},
                                 .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false}}};
  trainer.fit();

  CHECK(refused<Weight>([](TorchContext& ctx, Weight& model) {
          CHECK(ctx.join(true));
          CHECK_FALSE(ctx.accumulate(3));
          model(all(1)).backward();
          (void)ctx.join(true);
        }) ==
        "invalid_call: joining workers of which some have no batch: join() was called within a window of 3 batches, "
        "behind batch 1 of it; call it before the first batch of a window, and give accumulate() true for is_last in a "
        "worker's last batch");
  CHECK(refused<Weight>([](TorchContext& ctx, Weight& model) {
          CHECK_FALSE(ctx.accumulate(2));
          model(all(1)).backward();
          CHECK(ctx.accumulate(2));
          (void)ctx.join(true);
        }) ==
        "invalid_call: accumulating gradients: model 1 had no backward in the last batch of the window before, and the "
        "gradients of earlier ones are not averaged; call backward() for each model where accumulate() is true");
}

TEST_CASE("ranks that are out of step get an error that names join and the backward") {
  auto const check_all = [](TrainTorch const& train, std::vector<std::string> const& parts) {
    auto const texts = failures_of(2, train);
    REQUIRE(!texts.empty());
    for (auto const& text : texts) {
      for (auto const& part : parts) check_contains(text, part);
    }
  };
  auto const remedy =
      "; make every rank call join() before each step, and run as many backwards behind it, with or without a batch";
  check_all(
      [](TorchContext& ctx) {
        auto model = ctx.prepare_model([] { return Weight{}; });
        CHECK(ctx.join(is_0(ctx)));
        if (!is_0(ctx)) ctx.shadow_backward(model);
        (void)ctx.join(false);
      },
      {"rank 0 calls all_gather(1 x uint8) for join() 2, but rank 1 calls all_reduce(",
       " x float32, average) for backward 1 of model 1 (after 0 samples of epoch 0)", remedy});
  check_all(
      [](TorchContext& ctx) {
        auto model = ctx.prepare_model([] { return Weight{}; });
        for (int step = 0; step < 2; ++step) {
          if (is_0(ctx) || step == 0) (void)ctx.join(true);
          model(all(1)).backward();
        }
      },
      {"rank 0 calls all_gather(1 x uint8) for join() 2, but rank 1 calls all_reduce(",
       " x float32, average) for backward 2 of model 1", remedy});
  check_all(
      [](TorchContext& ctx) {
        CHECK(ctx.join(true));
        if (is_0(ctx)) return (void)ctx.join(true);
        std::vector<std::uint8_t> const own(1);
        std::vector<std::uint8_t> both(2);
        ctx.collective().all_gather(own, both);
      },
      {"rank 0 calls all_gather(1 x uint8) for join() 2, but rank 1 calls all_gather(1 x uint8); make every rank call "
       "join()"});
  check_all(
      [](TorchContext& ctx) {
        CHECK(ctx.join(true));
        if (is_0(ctx)) (void)ctx.join(true);
      },
      {"rank 1 has ended while rank 0 waits in all_gather(1 x uint8) for join() 2"});
}

TEST_CASE("a worker that fails ends the others within join and within shadow_backward, and its own text is reported") {
  for (bool const within_join : {true, false}) {
    expect_others_stopped([&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Weight{}; });
      auto const rank = ctx.world_rank().value;
      CHECK(ctx.join(rank != 0));
      if (within_join) rank == 0 ? ctx.shadow_backward(model) : model(all(1)).backward();
      return [&ctx, model, rank, within_join]() mutable {
        within_join ? (void)ctx.join(false) : rank == 0 ? ctx.shadow_backward(model) : model(all(1)).backward();
      };
    });
  }
}
