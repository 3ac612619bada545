// SPDX-License-Identifier: Apache-2.0
// Workers that have different numbers of batches of data of the program's own.
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/backend/torch/power_sgd.hpp>
#include <raytrain/backend/torch/sync_batch_norm.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/trainer.hpp>

#include "../support/thrown_error.hpp"
#include "local_training.hpp"
#include "torch_run.hpp"
#include "uneven_batches.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

struct NetImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear{columns, 7});
  torch::nn::Linear last = register_module("last", torch::nn::Linear{7, 2});
  NetImpl() { to(torch::kDouble); }
  auto loss(torch::Tensor const& x) -> torch::Tensor { return (last(torch::tanh(first(x))) - 1).square().mean(); }
};
TORCH_MODULE(Net);

/// Averages as it is done without an exchange.
class Average : public GradientExchange {
  void exchange(GradientBucket const& bucket, Collective& collective) override {
    auto const average = [&]<class T>(T* values) {
      collective.all_reduce(std::span{values, static_cast<std::size_t>(bucket.values.numel())}, ReduceOp::average);
    };
    bucket.values.scalar_type() == torch::kDouble ? average(bucket.values.data_ptr<double>())
                                                  : average(bucket.values.data_ptr<float>());
  }
};

struct How {
  bool is_sharded = false;
  bool has_exchange = false;
  Overlap overlap = Overlap::off;
};

/// Each rank's parameters behind a training on the batches that there are.
auto trained_apart(Counts const& counts, How how) -> std::vector<Tensors> {
  ByRank parameters;
  auto const result = run_once({.workers = static_cast<int>(counts.size())}, [&](TorchContext& ctx) {
    ModelOptions options{.bucket_bytes = 1, .overlap = how.overlap};
    if (how.has_exchange) options.exchange = std::make_shared<Average>();
    auto model = ctx.prepare_model([] { return Net{}; }, options);
    auto const train = [&](torch::optim::Optimizer& optimizer) {
      int step = 0;
      auto const next = [&] { return batch_of(counts, ctx.world_rank().value, step++); };
      for (auto batch = next(); ctx.join(batch.has_value()); batch = next()) {
        optimizer.zero_grad();
        batch ? model->loss(*batch).backward() : ctx.shadow_backward(model);
        optimizer.step();
      }
      CHECK(step == most(counts) + 1);
    };
    if (how.is_sharded) {
      auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model, {0.05});
      train(optimizer);
    } else {
      torch::optim::Adam optimizer{model->parameters(), {0.05}};
      train(optimizer);
    }
    parameters.put(ctx, model->parameters());
  });
  CHECK(warnings_with(result, "parameters") == 0);
  return parameters.all();
}

/// The same in one process, of which each step has all batches.
auto trained_together(Counts const& counts) -> Tensors {
  Tensors parameters;
  run_once({.workers = 1}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{}; });
    torch::optim::Adam optimizer{model->parameters(), {0.05}};
    for (int step = 0; step < most(counts); ++step) {
      optimizer.zero_grad();
      model->loss(torch::cat(batches_of(counts, step))).backward();
      optimizer.step();
    }
    parameters = copies(model->parameters());
  });
  return parameters;
}

void check_near(Tensors const& found, Tensors const& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(torch::allclose(found[i], expected[i], 0, 1e-12));
}

}  // namespace

TEST_CASE("each step is that of one process with all batches of the step, on every rank with the same bits") {
  for (auto const& counts : std::vector<Counts>{{5, 3, 0}, {0, 5, 3}, {3, 0, 5}, {1, 4, 0, 3}, {2, 2}, {0, 4}, {3}}) {
    auto const expected = trained_together(counts);
    std::vector<Tensors> plain;
    for (auto const how : {How{}, How{.is_sharded = true}, How{.has_exchange = true}, How{.overlap = Overlap::on},
                           How{.is_sharded = true, .overlap = Overlap::measured}}) {
      CAPTURE(counts.size());
      CAPTURE(how.is_sharded);
      CAPTURE(how.has_exchange);
      CAPTURE(to_string(how.overlap));
      auto const found = trained_apart(counts, how);
      check_near(found[0], expected);
      for (auto const& of_rank : found) CHECK(same_bits(of_rank, found[0]));
      if (plain.empty()) plain = found;
      CHECK(same_bits(found[0], plain[0]));
    }
  }
}

TEST_CASE("when no rank has a batch from the beginning there is no step") {
  run_once({.workers = 3}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    CHECK_FALSE(ctx.join(false));
    CHECK_FALSE(ctx.join(false));
  });
}

TEST_CASE("the mean over all ranks is back when join is false, and with a batch on each of them") {
  run_once({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    auto const rank = ctx.world_rank().value;
    auto const check_mean_of_all = [&] {
      model->zero_grad();
      model(all(1 + rank)).backward();
      CHECK(torch::equal(model->w.grad(), all(1.5)));
    };
    CHECK(ctx.join(rank == 1));
    rank == 1 ? model(all(5)).backward() : ctx.shadow_backward(model);
    CHECK(torch::equal(model->w.grad(), all(5)));
    CHECK(ctx.join(true));
    check_mean_of_all();
    CHECK(ctx.join(rank == 1));
    CHECK_FALSE(ctx.join(false));
    check_mean_of_all();
  });
}

TEST_CASE("compressed gradients are those of the ranks with a batch, rounded as ever, bit by bit") {
  Counts const counts{2, 0, 1, 2};
  for (auto const compression : {Compression::bf16, Compression::fp16}) {
    auto const type = compression == Compression::bf16 ? torch::kBFloat16 : torch::kHalf;
    run_once({.workers = 4}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Weight{rows * columns}; }, {.exchange = compressed(compression)});
      auto const own = [&](std::uint32_t rank, int step) {
        auto const batch = batch_of(counts, rank, step);
        return batch ? batch->to(torch::kFloat).flatten() : torch::Tensor{};
      };
      for (int step = 0; step < 2; ++step) {
        auto const batch = own(ctx.world_rank().value, step);
        CHECK(ctx.join(batch.defined()));
        model->zero_grad();
        batch.defined() ? model(batch).backward() : ctx.shadow_backward(model);
        auto sum = torch::zeros({rows * columns});
        for (std::uint32_t rank = 0; rank < 4; ++rank) {
          if (auto const each = own(rank, step); each.defined()) {
            sum = sum + (each * (step == 0 ? 4.0 / 3 : 2)).to(type).to(torch::kFloat);
          }
        }
        CHECK(torch::equal(model->w.grad(), (sum / 4).to(type).to(torch::kFloat)));
      }
    });
  }
}

TEST_CASE("what PowerSGD loses comes in later steps in the same measure, however many ranks have a batch then") {
  struct MatrixImpl : torch::nn::Module {
    torch::Tensor w = register_parameter("w", torch::zeros({24, 20}));
  };
  Counts const counts{2, 6, 4};
  auto const gradient_of = [](std::uint32_t rank, int step) {
    auto generator = at::detail::createCPUGenerator(100 * rank + static_cast<std::uint64_t>(step));
    return torch::randn({24, 20}, generator);
  };
  auto applied = std::vector<torch::Tensor>(3);
  auto errors = std::vector<torch::Tensor>(3);
  run_once({.workers = 3}, [&](TorchContext& ctx) {
    auto const rank = ctx.world_rank().value;
    auto const power_sgd = std::make_shared<PowerSGD>(PowerSGDConfig{.exact_steps = 0});
    auto model = ctx.prepare_model([] { return MatrixImpl{}; }, {.exchange = power_sgd});
    applied[rank] = torch::zeros({24, 20});
    int step = 0;
    for (; ctx.join(step < counts[rank]); ++step) {
      model->zero_grad();
      step < counts[rank] ? (model->w * gradient_of(rank, step)).sum().backward() : ctx.shadow_backward(model);
      applied[rank] += model->w.grad();
    }
    CHECK(step == 6);
    errors[rank] = torch::tensor(power_sgd->state().errors.at("w")).view({24, 20});
  });
  auto expected = -(errors[0] + errors[1] + errors[2]) / 3;
  for (int step = 0; step < 6; ++step) {
    auto sum = torch::zeros({24, 20});
    int with_batch = 0;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      if (step >= counts[rank]) continue;
      sum += gradient_of(rank, step);
      ++with_batch;
    }
    expected += sum / with_batch;
  }
  CHECK(torch::allclose(applied[0], expected, 1e-4, 1e-4));
  CHECK(same_bits(applied, {applied[0], applied[0], applied[0]}));
}

TEST_CASE("buffers follow the lowest rank that has a batch, small and large ones") {
  for (std::int64_t const channels : {columns, std::int64_t{20'000}}) {
    CAPTURE(channels);
    auto const input = [&](torch::Tensor const& batch) { return batch.repeat({1, channels / columns}); };
    for (auto const& counts : std::vector<Counts>{{1, 3, 4}, {3, 1, 0}, {0, 0, 2}}) {
      torch::nn::BatchNorm1d expected{channels};
      expected->to(torch::kDouble);
      run_once({.workers = 3}, [&](TorchContext& ctx) {
        auto model = ctx.prepare_model([&] {
          torch::nn::BatchNorm1d norm{channels};
          norm->to(torch::kDouble);
          return norm;
        });
        int step = 0;
        for (auto batch = batch_of(counts, ctx.world_rank().value, step); ctx.join(batch.has_value());
             batch = batch_of(counts, ctx.world_rank().value, step)) {
          if (is_0(ctx)) (void)expected(input(batches_of(counts, step).front()));
          batch ? model(input(*batch)).sum().backward() : ctx.shadow_backward(model);
          ctx.barrier();  // rank 0 has computed what is expected
          CHECK(same_bits(model->buffers(), expected->buffers()));
          ctx.barrier();
          ++step;
        }
        CHECK(model->num_batches_tracked.item<std::int64_t>() == most(counts));
      });
    }
  }
}

TEST_CASE("in windows of accumulated batches each rank with a batch counts alike, and may have fewer of them") {
  Counts const counts{7, 2, 0};
  constexpr int length = 3;
  ByRank parameters;
  run_once({.workers = 3}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{}; });
    torch::optim::SGD optimizer{model->parameters(), 0.5};
    auto const rank = ctx.world_rank().value;
    int taken = 0;
    while (ctx.join(taken < counts[rank])) {
      if (taken == counts[rank]) ctx.shadow_backward(model);
      for (bool is_last = taken == counts[rank]; !is_last; ++taken) {
        is_last = ctx.accumulate(length, taken + 1 == counts[rank]);
        model->loss(*batch_of(counts, rank, taken)).backward();
      }
      optimizer.step();
      optimizer.zero_grad();
    }
    parameters.put(ctx, model->parameters());
  });
  Tensors expected;
  run_once({.workers = 1}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{}; });
    torch::optim::SGD optimizer{model->parameters(), 0.5};
    for (int begin = 0; begin < most(counts); begin += length) {
      optimizer.zero_grad();
      Tensors losses;
      for (std::uint32_t rank = 0; rank < counts.size(); ++rank) {
        Tensors of_rank;
        for (int i = begin; i < begin + length; ++i) {
          if (auto const batch = batch_of(counts, rank, i)) of_rank.push_back(model->loss(*batch));
        }
        if (!of_rank.empty()) losses.push_back(torch::stack(of_rank).mean());
      }
      torch::stack(losses).mean().backward();
      optimizer.step();
    }
    expected = copies(model->parameters());
  });
  for (auto const& of_rank : parameters.all()) {
    check_near(of_rank, expected);
    CHECK(same_bits(of_rank, parameters.all()[0]));
  }
}

TEST_CASE("gradients of backwards before stay what they are, of each of two models, and a kept one too") {
  run_once({.workers = 4}, [](TorchContext& ctx) {
    auto first = ctx.prepare_model([] { return Weight{}; });
    auto second = ctx.prepare_model([] { return Weight{}; });
    auto const rank = ctx.world_rank().value;
    torch::Tensor kept;
    for (int step = 0; step < 3; ++step) {
      auto const has_batch = rank == 1 || (step < 2 && rank == 3);
      CHECK(ctx.join(has_batch));
      for (int backward = 0; backward < 2; ++backward) {
        has_batch ? first(all(rank)).backward() : ctx.shadow_backward(first);
      }
      has_batch ? second(all(10 * rank)).backward() : ctx.shadow_backward(second);
      if (step == 0) {
        kept = first->w.grad();
        first->zero_grad(true);
        second->zero_grad(false);
      }
    }
    // The mean of 1 and 3, and then 1 alone.
    CHECK(torch::equal(kept, all(2 * 2)));
    CHECK(torch::equal(first->w.grad(), all(2 * 2 + 2 * 1)));
    CHECK(torch::equal(second->w.grad(), all(20 + 10)));
    CHECK_FALSE(first->unused.grad().defined());
  });
}

TEST_CASE("a parameter that some rank with a batch has used has a gradient on ranks without one") {
  run_once({.workers = 3}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    auto const rank = ctx.world_rank().value;
    CHECK(ctx.join(rank > 0));
    rank == 0   ? ctx.shadow_backward(model)
    : rank == 1 ? model(all(4)).backward()
                : (model(all(2)) + 6 * model->unused.sum()).backward();
    CHECK(torch::equal(model->w.grad(), all(3)));
    CHECK(torch::equal(model->unused.grad(), torch::full({2}, 3.0)));
  });
}

TEST_CASE("a rank without a batch that does not step is warned of, since its parameters are others then") {
  auto const result = run_once({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    torch::optim::SGD optimizer{model->parameters(), 1.0};
    for (int step = 0; ctx.join(is_0(ctx) && step < 3); ++step) {
      is_0(ctx) ? model(all(1)).backward() : ctx.shadow_backward(model);
      if (is_0(ctx)) optimizer.step();
    }
  });
  CHECK(warnings_with(result, "the parameters of model 1 are not the same on every rank in its backward 2") == 1);
}

TEST_CASE("with one worker join says whether it has a batch, and backwards are its own") {
  run_once({.workers = 1}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    CHECK(ctx.join(true));
    model(all(2)).backward();
    CHECK(torch::equal(model->w.grad(), all(2)));
    CHECK_FALSE(ctx.join(false));
    check_contains(thrown_error([&] {
                     ctx.shadow_backward(model);
                     return 0;
                   }),
                   "was called without join()");
  });
}

TEST_CASE("a model that wants no gradient trains beside one that does, has an optimizer, and needs no batch") {
  run_once({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Weight{}; });
    auto const frozen = ctx.prepare_model([] {
      torch::nn::Linear layer{1, 1};
      for (auto& parameter : layer->parameters()) parameter.requires_grad_(false);
      return layer;
    });
    auto const empty = ctx.prepare_model([] { return torch::nn::ReLU{}; });
    auto optimizer = ctx.prepare_optimizer<torch::optim::AdamW>(frozen, {0.1});
    auto const before = copies(frozen->parameters());
    CHECK(ctx.join(is_0(ctx)));
    if (is_0(ctx)) {
      model(all(3)).backward();
    } else {
      ctx.shadow_backward(model);
      ctx.shadow_backward(frozen);
      ctx.shadow_backward(empty);
    }
    optimizer.step();
    CHECK_FALSE(ctx.join(false));
    CHECK(torch::equal(model->w.grad(), all(3)));
    CHECK(same_bits(frozen->parameters(), before));
    ctx.report(Epoch{0, 0.5}, save(frozen, optimizer));
  });
}
