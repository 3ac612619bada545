// SPDX-License-Identifier: Apache-2.0
// Optimizers of which each worker runs a part.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
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

/// With a part that some steps do not use, a frozen one, one that two names share, and one that lies in columns.
struct NetImpl : torch::nn::Module {
  NetImpl() : first{37, 61}, last{61, 5}, extra{61, 5} {
    register_module("first", first);
    register_module("extra", extra);
    register_module("last", last);
    scale = register_parameter("scale", torch::ones({61}));
    same = register_module("same", std::make_shared<torch::nn::Module>());
    same->register_parameter("scale", scale);
    frozen = register_parameter("frozen", torch::ones({5}), false);
    columns = register_parameter("columns", torch::rand({5, 61}).t());
  }
  auto forward(torch::Tensor const& x, bool with_extra) -> torch::Tensor {
    auto const hidden = torch::tanh(first(x)) * scale * scale;
    auto const out = last(hidden) * frozen + hidden.matmul(columns);
    return with_extra ? out + extra(hidden) : out;
  }
  torch::nn::Linear first, last, extra;
  torch::Tensor scale, frozen, columns;
  std::shared_ptr<torch::nn::Module> same;
};
TORCH_MODULE(Net);

struct Training {
  int workers = 2;
  bool is_sharded = true;
  bool has_groups = false;
};

/// Weights decay, biases and the rest do not.
auto groups_of(Net const& model) -> std::vector<torch::optim::OptimizerParamGroup> {
  Tensors weights;
  Tensors others;
  for (auto const& item : model->named_parameters()) {
    (item.key().ends_with("weight") ? weights : others).push_back(item.value());
  }
  return {torch::optim::OptimizerParamGroup{others}, torch::optim::OptimizerParamGroup{weights}};
}

template <class O, class Options>
auto decaying(Options options) -> std::unique_ptr<torch::optim::OptimizerOptions> {
  options.weight_decay(0.03);
  options.lr(2 * options.lr());
  return std::make_unique<Options>(options);
}

/// Takes some steps, of which one has no gradient for a part of the model, one adds up two backwards, and some have
/// another rate; gives the parameters of each rank.
template <class O>
auto trained(Training const& training, typename ElementwiseOptimizer<O>::Options const& options)
    -> std::vector<Tensors> {
  std::vector<Tensors> parameters(static_cast<std::size_t>(training.workers));
  run_once({.workers = training.workers, .seed = 3}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{}; });
    auto groups =
        training.has_groups ? groups_of(model) : std::vector{torch::optim::OptimizerParamGroup{model->parameters()}};
    if (training.has_groups) groups[1].set_options(decaying<O>(options));
    auto const train = [&](torch::optim::Optimizer& optimizer) {
      torch::optim::StepLR scheduler{optimizer, 3, 0.5};
      for (int step = 0; step < 8; ++step) {
        if (step % 2 == 0) {
          optimizer.zero_grad();
        } else {
          for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
        }
        for (int backward = 0; backward < (step == 5 ? 2 : 1); ++backward) {
          auto const x = torch::rand({4, 37}, ctx.generator());
          model(x, step != 3 && step != 4).square().mean().backward();
        }
        optimizer.step();
        scheduler.step();
      }
    };
    if (training.is_sharded) {
      auto optimizer = ctx.prepare_optimizer<O>(model, groups, options);
      train(optimizer);
    } else {
      O optimizer{groups, options};
      train(optimizer);
    }
    parameters[ctx.world_rank().value] = copies(model->parameters());
  });
  return parameters;
}

template <class O>
void check_same_bits(typename ElementwiseOptimizer<O>::Options const& options) {
  for (auto const has_groups : {false, true}) {
    for (int const workers : {1, 2, 3}) {
      CAPTURE(workers);
      CAPTURE(has_groups);
      auto const expected = trained<O>({.workers = workers, .is_sharded = false, .has_groups = has_groups}, options);
      auto const found = trained<O>({.workers = workers, .has_groups = has_groups}, options);
      for (auto const& parameter : expected[0]) CHECK(parameter.isfinite().all().template item<bool>());
      for (auto const& of_rank : found) CHECK(same_bits(of_rank, expected[0]));
    }
  }
}

struct HalvesImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear{2, 1});
  torch::nn::Linear second = register_module("second", torch::nn::Linear{2, 1});
};
TORCH_MODULE(Halves);

/// What the only failure of a run says; empty for a run that succeeds.
auto failure_in(TrainTorch const& train, RunSetup const& setup = {}) -> std::string {
  return thrown_error([&] { return run_once(setup, train).history.size(); });
}

}  // namespace

TEST_CASE("SGD has the bits that it has where each worker runs all of it") {
  check_same_bits<torch::optim::SGD>(torch::optim::SGDOptions{0.01});
  check_same_bits<torch::optim::SGD>(torch::optim::SGDOptions{0.01}.momentum(0.9).dampening(0.1).weight_decay(0.02));
  check_same_bits<torch::optim::SGD>(torch::optim::SGDOptions{0.01}.momentum(0.9).nesterov(true));
}

TEST_CASE("Adam has the bits that it has where each worker runs all of it") {
  check_same_bits<torch::optim::Adam>(torch::optim::AdamOptions{0.01});
  check_same_bits<torch::optim::Adam>(torch::optim::AdamOptions{0.01}.amsgrad(true).weight_decay(0.02));
}

TEST_CASE("AdamW has the bits that it has where each worker runs all of it") {
  check_same_bits<torch::optim::AdamW>(torch::optim::AdamWOptions{0.01});
  check_same_bits<torch::optim::AdamW>(torch::optim::AdamWOptions{0.01}.amsgrad(true));
}

TEST_CASE("RMSprop has the bits that it has where each worker runs all of it") {
  check_same_bits<torch::optim::RMSprop>(torch::optim::RMSpropOptions{0.01});
  check_same_bits<torch::optim::RMSprop>(
      torch::optim::RMSpropOptions{0.01}.centered(true).momentum(0.9).weight_decay(0.02));
}

TEST_CASE("Adagrad has the bits that it has where each worker runs all of it") {
  check_same_bits<torch::optim::Adagrad>(torch::optim::AdagradOptions{0.01});
  check_same_bits<torch::optim::Adagrad>(
      torch::optim::AdagradOptions{0.01}.lr_decay(0.1).initial_accumulator_value(0.5).weight_decay(0.02));
}

TEST_CASE("Adadelta has the bits that it has where each worker runs all of it") {
  check_same_bits<Adadelta>(AdadeltaOptions{});
  check_same_bits<Adadelta>(AdadeltaOptions{0.5}.rho(0.8).eps(1e-5).weight_decay(0.02));
}

TEST_CASE("each worker keeps the optimizer's state of its part of the parameters only") {
  constexpr int workers = 3;
  std::vector<std::int64_t> elements(workers);
  run_once({.workers = workers}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{100, 96}; });
    auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model);
    model(torch::ones({1, 100})).sum().backward();
    optimizer.step();
    CHECK(optimizer.state().empty());
    for (auto const& [key, state] : optimizer.slice().state()) {
      auto const& adam = static_cast<torch::optim::AdamParamState const&>(*state);
      elements[ctx.world_rank().value] += adam.exp_avg().numel() + adam.exp_avg_sq().numel();
    }
  });
  constexpr std::int64_t all = 2 * (100 * 96 + 96);
  for (auto const own : elements) CHECK(own <= all / workers + 2 * 16);
  CHECK(elements[0] + elements[1] + elements[2] == all);
}

TEST_CASE("a model of fewer elements than workers is trained, and workers without any wait for the others") {
  Tensors weights(4);
  run_once({.workers = 4}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{torch::nn::LinearOptions{2, 1}.bias(false)}; });
    {
      torch::NoGradGuard const no_grad;
      model->weight.fill_(1);
    }
    auto optimizer = ctx.prepare_optimizer<torch::optim::SGD>(model, {0.5});
    model(torch::ones({1, 2})).sum().backward();
    optimizer.step();
    weights[ctx.world_rank().value] = model->weight.detach().clone();
  });
  for (auto const& weight : weights) CHECK(torch::equal(weight, torch::full({1, 2}, 0.5)));
}

TEST_CASE("options that a program changes in a group count from the next step on, and a closure gives its loss") {
  run_once({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{torch::nn::LinearOptions{1, 1}.bias(false)}; });
    auto optimizer = ctx.prepare_optimizer<torch::optim::SGD>(model, {1});
    auto const change = [&](double rate) {
      auto const before = model->weight.item<float>();
      optimizer.param_groups()[0].options().set_lr(rate);
      auto const loss = optimizer.step([&] {
        optimizer.zero_grad();
        auto value = model(torch::ones({1, 1})).sum();
        value.backward();
        return value;
      });
      CHECK(loss.item<float>() == before);
      return before - model->weight.item<float>();
    };
    CHECK(change(0.25) == doctest::Approx(0.25));
    static_cast<torch::optim::SGDOptions&>(optimizer.param_groups()[0].options()).weight_decay(1);
    auto const weight = model->weight.item<double>();
    CHECK(change(0.5) == doctest::Approx(0.5 + 0.5 * weight));
  });
}

TEST_CASE("what a program puts in the place of a parameter's memory, or of its gradient, is what a step begins with") {
  Tensors weights(2);
  run_once({}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{torch::nn::LinearOptions{64, 1}.bias(false)}; });
    auto optimizer = ctx.prepare_optimizer<torch::optim::SGD>(model, {1});
    model->weight.set_data(torch::full({1, 64}, 10.0F));
    model->weight.mutable_grad() = torch::full({1, 64}, 3.0F);
    optimizer.step();
    model->weight.set_data(torch::full({64, 1}, 5.0F).t());
    optimizer.step();
    weights[ctx.world_rank().value] = model->weight.detach().clone();
  });
  for (auto const& weight : weights) CHECK(torch::equal(weight, torch::full({1, 64}, 2.0F)));
}

TEST_CASE("a backward through a graph of before a step is refused, as with the whole optimizer") {
  auto const text = failure_in([](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{}; });
    auto optimizer = ctx.prepare_optimizer<torch::optim::SGD>(model, {0.1});
    auto const loss = model(torch::ones({4, 37}), true).square().sum();
    loss.backward({}, true);
    optimizer.step();
    loss.backward();
  });
  check_contains(text, "has been modified by an inplace operation");
}

TEST_CASE(
    "a sharded optimizer has the same bits with any number of workers, where gradients have: with virtual shards") {
  auto const parameters_of = [](int workers, bool is_sharded) {
    Tensors state;
    auto const train = [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
      auto const loop = [&](torch::optim::Optimizer& optimizer) {
        for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 5})) {
          auto const images = batch["image"].flatten(1).to(torch::kFloat).div(255);
          torch::nn::functional::cross_entropy(model(images), batch["label"].to(torch::kLong)).backward();
          if (!batch.ends_step()) continue;
          optimizer.step();
          optimizer.zero_grad();
        }
      };
      if (is_sharded) {
        auto optimizer = ctx.prepare_optimizer<torch::optim::AdamW>(model, {0.01});
        loop(optimizer);
      } else {
        torch::optim::AdamW optimizer{model->parameters(), 0.01};
        loop(optimizer);
      }
      if (ctx.world_rank() == Rank{0}) state = copies(model->parameters());
    };
    TemporaryFolder const folder;
    Trainer<TorchBackend> trainer{train,
                                  {.scaling = {.num_workers = workers, .virtual_shards = 4},
                                   .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
                                   .datasets = {{"train", small_images(90)}}}};
    trainer.fit();
    return state;
  };
  auto const expected = parameters_of(2, false);
  for (int const workers : {1, 2, 3, 4}) CHECK(same_bits(parameters_of(workers, true), expected));
}

TEST_CASE("a sparse gradient in a world of one does what it does on several workers") {
  auto const weights = [](int workers) {
    Tensors state;
    run_once({.workers = workers}, [&](TorchContext& ctx) {
      auto const options = torch::nn::EmbeddingOptions{32, 3}.sparse(true);
      auto model = ctx.prepare_model([&] { return torch::nn::Embedding{options}; });
      auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model, {0.1});
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        model(torch::tensor({1, 5, 1})).sum().backward();
        optimizer.step();
      }
      if (ctx.world_rank() == Rank{0}) state = copies(model->parameters());
    });
    return state;
  };
  CHECK(same_bits(weights(1), weights(2)));
}

TEST_CASE("an optimizer of what is not the prepared model's is refused, and the error names it") {
  for (int const workers : {1, 2}) {
    check_contains(
        failure_in(
            [](TorchContext& ctx) {
              auto model = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
              auto other = ctx.prepare_model([] { return torch::nn::Linear{3, 1}; });
              (void)ctx.prepare_optimizer<torch::optim::SGD>(
                  model, {torch::optim::OptimizerParamGroup{other->parameters()}}, {0.1});
            },
            {.workers = workers}),
        "preparing an optimizer: group 0 lists a tensor {1, 3} Float that is no parameter of the model; list "
        "parameters of the model that is given with them");
  }
  check_contains(
      failure_in([](TorchContext& ctx) {
        torch::nn::Linear const model{2, 1};
        (void)ctx.prepare_optimizer<torch::optim::Adam>(model);
      }),
      "its model is not prepared, and gradients would not be averaged; make the model by ctx.prepare_model()");
  check_contains(failure_in([](TorchContext& ctx) {
                   auto model = ctx.prepare_model([] {
                     torch::nn::Linear linear{2, 1};
                     linear->bias.requires_grad_(false);
                     return linear;
                   });
                   model->bias.requires_grad_(true);
                   (void)ctx.prepare_optimizer<torch::optim::Adam>(model);
                 }),
                 "parameter 'bias' wants a gradient since the model was prepared, which is not averaged; call "
                 "prepare_model() again with this model before prepare_optimizer()");
  check_contains(failure_in([](TorchContext& ctx) {
                   auto model = ctx.prepare_model([] {
                     torch::nn::Sequential both{torch::nn::Linear{2, 2}, torch::nn::Linear{2, 2}};
                     both[1]->parameters()[0].set_data(both[0]->parameters()[0].detach());
                     return both;
                   });
                   (void)ctx.prepare_optimizer<torch::optim::Adam>(model);
                 }),
                 "'0.weight' and '1.weight' lie in the same memory, which a sharded optimizer would end");
}

TEST_CASE("buffers that share memory with each other, and with no parameter of the optimizer, are let be") {
  run_once({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] {
      Halves halves;
      auto const mask = torch::ones({4, 4});
      halves->first->register_buffer("mask", mask.slice(0, 0, 2));
      halves->second->register_buffer("mask", mask);
      return halves;
    });
    (void)ctx.prepare_optimizer<torch::optim::SGD>(model, {0.1});
    auto const& mask = model->named_buffers()["second.mask"];
    CHECK(mask.data_ptr() == model->named_buffers()["first.mask"].data_ptr());
  });
  auto const text = failure_in([](TorchContext& ctx) {
    auto model = ctx.prepare_model([] {
      Halves halves;
      auto const memory = torch::ones({16});
      halves->first->register_buffer("all", memory);
      halves->first->register_buffer("some", memory.slice(0, 0, 2));
      halves->second->weight.set_data(memory.slice(0, 8, 10).view({1, 2}));
      return halves;
    });
    (void)ctx.prepare_optimizer<torch::optim::SGD>(model, {0.1});
  });
  check_contains(text, "'first.all' and 'second.weight' lie in the same memory");
}

TEST_CASE("a rank that prepares another optimizer, other options or other parameters is told, with both") {
  auto const refusal = [](auto prepare) {
    return failure_in([&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Halves{}; });
      prepare(ctx, model, ctx.world_rank() == Rank{1});
    });
  };
  check_contains(
      refusal([](TorchContext& ctx, Halves& model, bool is_other) {
        if (is_other) {
          (void)ctx.prepare_optimizer<torch::optim::Adam>(model);
        } else {
          (void)ctx.prepare_optimizer<torch::optim::AdamW>(model);
        }
      }),
      "preparing an optimizer: rank 0 has the optimizer torch::optim::AdamW, and rank 1 has the optimizer "
      "torch::optim::Adam; make the same call on every rank: with the same optimizer, options and parameters");
  check_contains(refusal([](TorchContext& ctx, Halves& model, bool is_other) {
                   (void)ctx.prepare_optimizer<torch::optim::SGD>(model, {is_other ? 0.5 : 0.25});
                 }),
                 "rank 0 has group.0.lr 0.25, and rank 1 has group.0.lr 0.5");
  check_contains(refusal([](TorchContext& ctx, Halves& model, bool is_other) {
                   auto const& half = is_other ? model->second : model->first;
                   (void)ctx.prepare_optimizer<torch::optim::SGD>(
                       model, {torch::optim::OptimizerParamGroup{half->parameters()}}, {0.5});
                 }),
                 "rank 0 has parameter 'first.weight' {1, 2} Float at place 0 in groups 0, and rank 1 has parameter "
                 "'second.weight' {1, 2} Float at place 0 in groups 0");
  check_contains(refusal([](TorchContext& ctx, Halves& model, bool is_other) {
                   std::vector<torch::Tensor> listed{model->first->weight};
                   if (is_other) listed.push_back(model->first->bias);
                   (void)ctx.prepare_optimizer<torch::optim::SGD>(model, {torch::optim::OptimizerParamGroup{listed}},
                                                                  {0.5});
                 }),
                 "rank 0 has nothing more, and rank 1 has parameter 'first.bias' {1} Float at place 1 in groups 0");
}

TEST_CASE("a rank that steps with a learning rate of its own, or without the others' gradients, is told") {
  auto const refusal = [](auto change) {
    return failure_in([&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
      auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model, {0.5});
      model(torch::ones({1, 2})).sum().backward();
      optimizer.step();
      if (ctx.world_rank() == Rank{1}) change(model, optimizer);
      optimizer.step();
    });
  };
  auto const of_rate = refusal([](torch::nn::Linear&, torch::optim::Optimizer& optimizer) {
    optimizer.param_groups()[0].options().set_lr(0.25);
  });
  check_contains(of_rate,
                 "rank 0 calls all_gather(64 x uint8) for step 2 of optimizer 1 of model 1 with learning rates of its "
                 "own, or gradients for other parameters, but rank 1 calls");
  check_contains(of_rate, "make every rank take the same steps in the same order, with the same learning rates");
  check_contains(
      refusal([](torch::nn::Linear& model, auto&) { model->bias.mutable_grad().reset(); }),
      "for step 2 of optimizer 1 of model 1 with learning rates of its own, or gradients for other parameters");
}

TEST_CASE("a learning rate that processors round in another way steps as one on all ranks") {
  Tensors weights(2);
  run_once({}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
    auto optimizer = ctx.prepare_optimizer<torch::optim::SGD>(model, {0.1});
    if (ctx.world_rank() == Rank{1}) optimizer.param_groups()[0].options().set_lr(std::nextafter(0.1, 1.0));
    model(torch::ones({1, 2})).sum().backward();
    optimizer.step();
    weights[ctx.world_rank().value] = model->weight.detach().clone();
  });
  CHECK(torch::equal(weights[0], weights[1]));
}

TEST_CASE("parameters that are others than when the optimizer was prepared are refused at its next step") {
  auto const refusal = [](auto change) {
    return failure_in([&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] {
        torch::nn::Linear linear{2, 1};
        linear->bias.requires_grad_(false);
        return linear;
      });
      auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model);
      change(model, optimizer);
      optimizer.step();
    });
  };
  check_contains(
      refusal([](torch::nn::Linear& model, auto&) {
        model->weight.set_data(torch::ones({1, 3}));
      }),
      "parameter 'weight' has another shape, type or device than when it was prepared; change a model before "
      "prepare_model() and prepare_optimizer()");
  check_contains(refusal([](torch::nn::Linear& model, auto&) { model->to(torch::kDouble); }),
                 "parameter 'weight' has another shape, type or device");
  check_contains(refusal([](torch::nn::Linear&, torch::optim::Optimizer& optimizer) {
                   optimizer.add_param_group({{torch::ones({2})}});
                 }),
                 "its groups list other parameters than when it was prepared; prepare another optimizer after such a "
                 "change");
  check_contains(refusal([](torch::nn::Linear& model, auto&) {
                   model->bias.requires_grad_(true);
                   model->bias.mutable_grad() = torch::ones({1});
                 }),
                 "parameter 'bias' has a gradient, and wanted none when the optimizer was prepared");
}

TEST_CASE("ranks of which one leaves a step out are told, with both calls") {
  auto const text = failure_in([](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
    auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model);
    for (int step = 0; step < 2; ++step) {
      model(torch::ones({1, 2})).sum().backward();
      if (step == 1 || ctx.world_rank() == Rank{0}) optimizer.step();
    }
  });
  check_contains(text, "rank 0 calls all_gather(64 x uint8) for step 1 of optimizer 1 of model 1");
  check_contains(text, " x float32, average) for backward 2 of model 1");
}

TEST_CASE("optimizers of two halves of a model that step in another order on a rank are refused") {
  auto const text = failure_in([](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Halves{}; });
    auto const of = [&](torch::nn::Linear const& half) {
      return ctx.prepare_optimizer<torch::optim::SGD>(model, {torch::optim::OptimizerParamGroup{half->parameters()}},
                                                      {0.5});
    };
    auto of_first = of(model->first);
    auto of_second = of(model->second);
    (ctx.world_rank() == Rank{0} ? of_first : of_second).step();
  });
  check_contains(text, "for step 1 of optimizer 1 of model 1");
  check_contains(text, "for step 1 of optimizer 2 of model 1");
  check_contains(text, "make every rank take the same steps in the same order");
}

TEST_CASE(
    "two models of one size whose optimizers step in another order on a rank are refused, and the error names both") {
  auto const text = failure_in([](TorchContext& ctx) {
    auto first = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
    auto second = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
    auto of_first = ctx.prepare_optimizer<torch::optim::Adam>(first);
    auto of_second = ctx.prepare_optimizer<torch::optim::Adam>(second);
    auto& now = ctx.world_rank() == Rank{0} ? of_first : of_second;
    now.step();
  });
  check_contains(text, "for step 1 of optimizer 1 of model 1");
  check_contains(text, "for step 1 of optimizer 2 of model 2");
}
