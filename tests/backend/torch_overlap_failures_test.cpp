// SPDX-License-Identifier: Apache-2.0
// What comes between an exchange of gradients and the backward that it goes on beside.
#include <raytrain/backend/torch/detail/backward_exchange.hpp>
#include <raytrain/backend/torch/model_options.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/backend/torch/sync_batch_norm.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/train/result.hpp>

#include "../support/thrown_error.hpp"
#include "failure_texts.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;

namespace {

using namespace raytrain;

/// A layer in the middle is of one rank alone. Its normalisation calls the other ranks within a backward.
struct NormedImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear{6, 12});
  torch::nn::Linear second = register_module("second", torch::nn::Linear{12, 12});
  SyncBatchNorm norm = register_module("norm", SyncBatchNorm{12});
  torch::nn::Linear of_one = register_module("of_one", torch::nn::Linear{12, 12});
  torch::nn::Linear last = register_module("last", torch::nn::Linear{12, 1});
  torch::Tensor none = register_parameter("none", torch::zeros({0}, torch::kDouble));

  auto forward(torch::Tensor x, Rank rank) -> torch::Tensor {
    x = norm(second(torch::tanh(first(x))));
    if (rank == Rank{1}) x = x + of_one(x);
    return last(x).pow(2).mean() + none.sum().to(torch::kFloat);
  }
};
TORCH_MODULE(Normed);

auto inputs_of(Rank rank, int step) -> torch::Tensor {
  auto generator = at::detail::createCPUGenerator(100 * static_cast<std::uint64_t>(step) + rank.value);
  return torch::randn({5, 6}, generator);
}

auto with(Overlap overlap, std::size_t bucket_bytes = 1) -> ModelOptions {
  return {.bucket_bytes = bucket_bytes, .overlap = overlap};
}

/// A backward that ends as it comes to the first layer.
void fail_backward(std::function<torch::Tensor()> const& loss, torch::Tensor const& where) {
  auto const hook = where.register_hook([](torch::Tensor const&) { throw std::runtime_error{"on purpose"}; });
  CHECK_THROWS_WITH_AS(loss().backward(), doctest::Contains("on purpose"), std::runtime_error);
  where.remove_hook(hook);
}

auto failures_of(int workers, TrainTorch const& train) -> std::string {
  return failure_texts([&] { run_once({.workers = workers}, train); });
}

/// The gradients of each rank in the end.
auto gradients(std::function<void(TorchContext&, std::vector<torch::Tensor>&)> const& train) -> std::vector<Tensors> {
  std::vector<Tensors> all(3);
  run_once({.workers = 3}, [&](TorchContext& ctx) {
    Tensors parameters;
    train(ctx, parameters);
    for (auto const& parameter : parameters) {
      all[ctx.world_rank().value].push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::zeros({0}));
    }
  });
  return all;
}

void check_gradients(std::vector<Tensors> const& left, std::vector<Tensors> const& right) {
  for (std::size_t rank = 0; rank < left.size(); ++rank) {
    CAPTURE(rank);
    CHECK(!left[rank].empty());
    CHECK(same_bits(left[rank], right[rank]));
  }
}

}  // namespace

TEST_CASE("a model whose backward failed with other gradients on their way on each rank is prepared again") {
  // The buckets of rank 0 wait for a layer that it does not use, when those of rank 1 are on their way.
  run_once({}, [](TorchContext& ctx) {
    auto const rank = ctx.world_rank();
    auto model = ctx.prepare_model([] { return Normed{}; }, with(Overlap::on));
    fail_backward([&] { return model(inputs_of(rank, 0), rank); }, model->first->weight);
    model = ctx.prepare_model(model, with(Overlap::on));
    model->zero_grad();
    model(inputs_of(rank, 1), rank).backward();
    CHECK(model->of_one->weight.grad().defined());
  });
}

TEST_CASE("a function that goes over a backward that failed with gradients on their way ends") {
  run_once({}, [](TorchContext& ctx) {
    auto const rank = ctx.world_rank();
    auto model = ctx.prepare_model([] { return Normed{}; }, with(Overlap::on));
    fail_backward([&] { return model(inputs_of(rank, 0), rank); }, model->first->weight);
  });
}

TEST_CASE("a rank whose backward fails with gradients on their way ends others that run none") {
  check_contains(
      failures_of(2,
                  [](TorchContext& ctx) {
                    auto const rank = ctx.world_rank();
                    auto model = ctx.prepare_model(
                        [] {
                          return torch::nn::Sequential{torch::nn::Linear{6, 6}, torch::nn::Linear{6, 1}};
                        },
                        with(Overlap::on));
                    if (rank == Rank{0}) return ctx.collective().barrier();
                    auto const first = model->parameters().front();
                    first.register_hook([](torch::Tensor const&) { throw std::runtime_error{"on purpose"}; });
                    model->forward(inputs_of(rank, 0)).sum().backward();
                  }),
      "on purpose");
}

TEST_CASE("a model is prepared, with an exchange during its backwards, within the making of another one") {
  run_once({}, [](TorchContext& ctx) {
    (void)ctx.prepare_model([&] {
      auto inner = ctx.prepare_model([] { return torch::nn::Linear{6, 1}; }, with(Overlap::on));
      inner(inputs_of(ctx.world_rank(), 0)).sum().backward();
      return torch::nn::Linear{6, 1};
    });
  });
}

TEST_CASE("an exchange that throws beside a backward on one rank ends the run with what it has said") {
  struct Throws : GradientExchange {
    void exchange(GradientBucket const& bucket, Collective& collective) override {
      collective.all_reduce(std::span{bucket.values.data_ptr<float>(), static_cast<std::size_t>(bucket.values.numel())},
                            ReduceOp::average);
      if (bucket.index == 1 && collective.rank() == Rank{1}) throw std::runtime_error{"no more"};
    }
    [[nodiscard]] auto allows_overlap() const -> bool override { return true; }
  };
  auto const failures = failures_of(2, [](TorchContext& ctx) {
    auto options = with(Overlap::on);
    options.exchange = std::make_shared<Throws>();
    auto model = ctx.prepare_model(
        [] {
          return torch::nn::Sequential{torch::nn::Linear{6, 6}, torch::nn::Linear{6, 1}};
        },
        options);
    model->forward(inputs_of(ctx.world_rank(), 0)).sum().backward();
  });
  check_contains(failures, "no more");
}

TEST_CASE("an exchange beside a backward gets all gradients as used ones, and gaps of 0 that it has filled before") {
  struct Fills : GradientExchange {
    void exchange(GradientBucket const& bucket, Collective& collective) override {
      auto const size = static_cast<std::size_t>(bucket.values.numel());
      collective.all_reduce(std::span{bucket.values.data_ptr<float>(), size}, ReduceOp::average);
      sums.push_back(bucket.values.abs().sum().item<double>());
      for (auto const& part : bucket.parts) uses_all = uses_all && part.is_used;
      bucket.values.fill_(7);
    }
    [[nodiscard]] auto allows_overlap() const -> bool override { return true; }
    std::vector<double> sums;
    bool uses_all = true;
  };
  run_once({}, [](TorchContext& ctx) {
    auto const exchange = std::make_shared<Fills>();
    auto options = with(Overlap::on);
    options.exchange = exchange;
    auto model = ctx.prepare_model(
        [] {
          return torch::nn::Sequential{torch::nn::Linear{3, 1}, torch::nn::Linear{3, 1}};
        },
        options);
    for (int step = 0; step < 2; ++step) {
      model->zero_grad();
      model->ptr<torch::nn::LinearImpl>(0)->forward(torch::ones({1, 3})).sum().backward();
    }
    CHECK(exchange->sums == std::vector<double>{0, 0, 1, 3, 1, 3, 0, 0});  // the second layer's come last, then
    CHECK(exchange->uses_all);
    CHECK(!model->ptr(1)->parameters().front().grad().defined());
  });
}

TEST_CASE("a backward that calls other ranks, and one through two models, have the same bits with an exchange beside") {
  auto const of = [](Overlap overlap) {
    return gradients([=](TorchContext& ctx, Tensors& parameters) {
      auto const rank = ctx.world_rank();
      auto left = ctx.prepare_model([] { return Normed{}; }, with(overlap));
      auto right = ctx.prepare_model([] { return Normed{}; }, with(overlap, 300));
      for (int step = 0; step < 5; ++step) {
        (left(inputs_of(rank, step), rank) * right(inputs_of(rank, 10 + step), rank)).backward();
      }
      parameters = left->parameters();
      for (auto const& parameter : right->parameters()) parameters.push_back(parameter);
    });
  };
  check_gradients(of(Overlap::on), of(Overlap::off));
}

TEST_CASE("two models with a parameter in common are refused where overlap is on for one, and not beside another") {
  struct HeadImpl : torch::nn::Module {
    explicit HeadImpl(torch::nn::Linear trunk) : trunk_{register_module("trunk", std::move(trunk))} {}
    torch::nn::Linear trunk_;
    torch::Tensor head_ = register_parameter("head", torch::ones({1}));
  };
  auto const prepare = [](Overlap first, Overlap second, bool in_common) {
    return [=](TorchContext& ctx) {
      torch::nn::Linear const trunk{1, 1};
      auto const other = in_common ? trunk : torch::nn::Linear{1, 1};
      auto const one = ctx.prepare_model(std::make_shared<HeadImpl>(trunk), with(first));
      auto const two = ctx.prepare_model(std::make_shared<HeadImpl>(other), with(second));
      auto const three = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; }, with(Overlap::on));
    };
  };
  for (auto const& [first, second] :
       {std::pair{Overlap::on, Overlap::off}, std::pair{Overlap::measured, Overlap::on}}) {
    check_contains(failures_of(2, prepare(first, second, true)),
                   "averaging gradients during a backward: two models have a parameter in common: 'trunk.weight' of "
                   "model 2, which is 'trunk.weight' of model 1; prepare one module that holds both, or set "
                   "ModelOptions::overlap to Overlap::off for both");
  }
  run_once({}, prepare(Overlap::off, Overlap::off, true));
  run_once({}, prepare(Overlap::measured, Overlap::measured, true));
  run_once({}, prepare(Overlap::on, Overlap::on, false));
}

TEST_CASE("a backward within a backward has the same bits, and is refused where its gradients are on their way") {
  auto const train = [](TorchContext& ctx, Tensors& parameters, ModelOptions const& options) {
    auto model = ctx.prepare_model(
        [] {
          return torch::nn::Sequential{torch::nn::Linear{6, 6}, torch::nn::Linear{6, 6}};
        },
        options);
    auto const x = inputs_of(ctx.world_rank(), 0);
    auto const y = model->ptr<torch::nn::LinearImpl>(0)->forward(x);
    y.register_hook([&](torch::Tensor const&) {
      torch::AutoGradMode const with_graph{true};
      model->ptr<torch::nn::LinearImpl>(1)->forward(torch::tanh(x)).pow(2).sum().backward();
    });
    model->ptr<torch::nn::LinearImpl>(1)->forward(y).pow(2).sum().backward();
    parameters = model->parameters();
  };
  auto const of = [&](Overlap overlap) {
    return gradients(
        [&](TorchContext& ctx, Tensors& parameters) { train(ctx, parameters, with(overlap, std::size_t{1} << 20U)); });
  };
  check_gradients(of(Overlap::on), of(Overlap::off));
  check_contains(failures_of(2,
                             [&](TorchContext& ctx) {
                               Tensors parameters;
                               train(ctx, parameters, with(Overlap::on));
                             }),
                 "gets a second gradient in it, after its first one is on its way to other ranks");
}

TEST_CASE("where a gradient comes twice in a backward, the buckets keep their order, and a later backward takes both") {
  auto const of = [](Overlap overlap) {
    return gradients([&](TorchContext& ctx, Tensors& parameters) {
      auto model = ctx.prepare_model(
          [] {
            return torch::nn::Sequential{torch::nn::Linear{6, 6}, torch::nn::Linear{6, 6}};
          },
          with(overlap));
      auto const x = inputs_of(ctx.world_rank(), 0);
      for (int step = 0; step < 3; ++step) {
        model->zero_grad();
        auto const y = model->ptr<torch::nn::LinearImpl>(1)->forward(x);
        y.register_hook([&](torch::Tensor const&) {
          torch::AutoGradMode const with_graph{true};
          model->ptr<torch::nn::LinearImpl>(0)->forward(torch::tanh(x)).pow(2).sum().backward();
        });
        model->ptr<torch::nn::LinearImpl>(0)->forward(y).pow(2).sum().backward();
      }
      parameters = model->parameters();
    });
  };
  check_gradients(of(Overlap::on), of(Overlap::off));
}

TEST_CASE("a window of batches begins with nothing behind one that a gradient of another shape has ended") {
  auto const of = [](Overlap overlap, bool fails) {
    return gradients([=](TorchContext& ctx, Tensors& parameters) {
      auto model = ctx.prepare_model(
          [] {
            return torch::nn::Sequential{torch::nn::Linear{6, 6}, torch::nn::Linear{6, 6}};
          },
          with(overlap, std::size_t{1} << 20U));
      auto const first = model->parameters().front();
      auto misfits = false;
      for (auto const& parameter : model->ptr(1)->parameters()) {
        parameter.register_hook([&](torch::Tensor const&) {
          if (misfits) first.mutable_grad() = torch::zeros({2});
        });
      }
      auto const backward = [&](int step) {
        model->ptr<torch::nn::LinearImpl>(1)->forward(inputs_of(ctx.world_rank(), step)).sum().backward();
      };
      if (fails) {
        (void)ctx.accumulate(2);
        model->forward(inputs_of(ctx.world_rank(), 0)).sum().backward();
        (void)ctx.accumulate(2);
        misfits = true;
        CHECK_THROWS_WITH_AS(backward(1), doctest::Contains("has another shape, type or device"), Error);
        misfits = false;
        model->zero_grad(true);
      }
      for (int step = 2; step < 4; ++step) {
        (void)ctx.accumulate(2);
        backward(step);
      }
      parameters = model->parameters();
      CHECK(!first.grad().defined());
    });
  };
  auto const expected = of(Overlap::off, false);
  check_gradients(of(Overlap::off, true), expected);
  check_gradients(of(Overlap::on, true), expected);
}
