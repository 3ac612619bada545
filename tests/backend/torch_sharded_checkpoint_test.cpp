// SPDX-License-Identifier: Apache-2.0
// Checkpoints of optimizers of which each worker runs a part.
#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/detail/stored_optimizer.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/trainer.hpp>

#include "../support/thrown_error.hpp"
#include "torch_run.hpp"

using raytrain::TorchContext;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

struct BranchesImpl : torch::nn::Module {
  auto forward(torch::Tensor const& x, bool with_second) -> torch::Tensor {
    return with_second ? first(x) + second(x) : first(x);
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear{23, 7});
  torch::nn::Linear second = register_module("second", torch::nn::Linear{23, 7});
  torch::Tensor columns = register_parameter("columns", torch::rand({7, 23}).t());
};
TORCH_MODULE(Branches);

/// A part of a run: who trains, and how many more steps.
struct Part {
  int workers = 2;
  bool is_sharded = true;
  int steps = 0;
};

/// All that a checkpoint has of an optimizer, by names.
struct Stored {
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> values;
};

auto stored_in(raytrain::Checkpoint const& checkpoint) -> Stored {
  auto const file = checkpoint.view("optimizer.safetensors");
  auto const index = raytrain::read_tensor_index(file.view(), "a test");
  auto const state = raytrain::detail::stored_state(file.view(), index, "a test");
  Stored stored;
  for (auto const& [name, tensor] : state.tensors) stored.tensors[name] = tensor.clone();
  stored.values = state.values;
  return stored;
}

void check_same(Stored const& found, Stored const& expected) {
  CHECK((found.values == expected.values));
  CHECK(found.tensors.size() == expected.tensors.size());
  for (auto const& [name, tensor] : expected.tensors) {
    CAPTURE(name);
    auto const other = found.tensors.find(name);
    REQUIRE(other != found.tensors.end());
    CHECK(torch::equal(other->second, tensor));
  }
}

template <class O, class Action>
void with_optimizer(TorchContext& ctx, Branches& model, bool is_sharded, Action const& action) {
  std::vector<torch::optim::OptimizerParamGroup> const groups{
      torch::optim::OptimizerParamGroup{{model->columns, model->second->weight, model->first->weight}},
      torch::optim::OptimizerParamGroup{{model->first->bias, model->second->bias}}};
  if (is_sharded) {
    auto optimizer = ctx.prepare_optimizer<O>(model, groups, {0.05});
    action(optimizer);
  } else {
    O optimizer{groups, {0.05}};
    action(optimizer);
  }
}

/// Goes on with what lies in the folder, and leaves a checkpoint there.
template <class O>
auto go_on(std::filesystem::path const& folder, Part const& part) -> raytrain::Checkpoint {
  auto const result = run_in(folder, {.workers = part.workers, .seed = 5}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Branches{}; });
    with_optimizer<O>(ctx, model, part.is_sharded, [&](auto& optimizer) {
      auto const epoch = ctx.restore(model, optimizer);
      for (int step = 0; step < part.steps; ++step) {
        optimizer.zero_grad();
        for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
        auto const x = torch::arange(46, torch::kFloat).div(46).reshape({2, 23});
        (model(x, step == 1) + x.matmul(model->columns)).square().mean().backward();
        optimizer.param_groups()[1].options().set_lr(0.02);
        optimizer.step();
      }
      ctx.report(Epoch{epoch, 0.5}, raytrain::save(model, optimizer));
    });
  });
  return result.checkpoint().value();
}

template <class O>
void check_checkpoints() {
  TemporaryFolder const whole_folder;
  TemporaryFolder const sharded_folder;
  auto const whole = stored_in(go_on<O>(whole_folder.path(), {.is_sharded = false, .steps = 3}));
  CHECK(!whole.tensors.empty());
  check_same(stored_in(go_on<O>(sharded_folder.path(), {.is_sharded = true, .steps = 3})), whole);
  for (int const workers : {3, 1, 4})
    check_same(stored_in(go_on<O>(sharded_folder.path(), {.workers = workers})), whole);
  check_same(stored_in(go_on<O>(sharded_folder.path(), {.is_sharded = false})), whole);
  check_same(stored_in(go_on<O>(whole_folder.path(), {.workers = 3})), whole);
  // And both go on to the same bits.
  auto const further = go_on<O>(whole_folder.path(), {.workers = 3, .is_sharded = false, .steps = 4});
  auto const sharded_further = go_on<O>(sharded_folder.path(), {.workers = 3, .steps = 4});
  check_same(stored_in(sharded_further), stored_in(further));
  auto const is_same_model = sharded_further.read("model.safetensors") == further.read("model.safetensors");
  CHECK(is_same_model);
}

/// What comes of loading what an Adam of two groups has stored.
template <class Load>
auto refusal(Load const& load) -> std::string {
  TemporaryFolder const folder;
  (void)go_on<torch::optim::Adam>(folder.path(), {.steps = 1});
  return thrown_error([&] { return run_in(folder.path(), {}, load).history.size(); });
}

}  // namespace

TEST_CASE_TEMPLATE(
    "a checkpoint holds what that of a whole optimizer holds, and either goes on from it with any number "
    "of workers",
    O, torch::optim::Adam, torch::optim::AdamW, torch::optim::RMSprop, torch::optim::Adagrad, raytrain::Adadelta) {
  check_checkpoints<O>();
}

TEST_CASE("momentum, of which a parameter that was not used has none, goes on with any number of workers") {
  TemporaryFolder const whole;
  TemporaryFolder const sharded;
  auto const train = [](std::filesystem::path const& folder, int workers, bool is_sharded, int steps) {
    auto const result = run_in(folder, {.workers = workers}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Branches{}; });
      auto const options = torch::optim::SGDOptions{0.1}.momentum(0.9);
      auto const loop = [&](auto& optimizer) {
        auto const epoch = ctx.restore(model, optimizer);
        for (int step = 0; step < steps; ++step) {
          model(torch::ones({1, 23}), false).sum().backward();
          optimizer.step();
        }
        ctx.report(Epoch{epoch, 0.5}, raytrain::save(model, optimizer));
      };
      if (is_sharded) {
        auto optimizer = ctx.prepare_optimizer<torch::optim::SGD>(model, options);
        loop(optimizer);
      } else {
        torch::optim::SGD optimizer{model->parameters(), options};
        loop(optimizer);
      }
    });
    return stored_in(result.checkpoint().value());
  };
  auto const expected = train(whole.path(), 2, false, 2);
  CHECK(expected.tensors.size() == 2);
  check_same(train(sharded.path(), 2, true, 2), expected);
  check_same(train(sharded.path(), 3, true, 0), expected);
  check_same(train(sharded.path(), 2, false, 0), expected);
}

TEST_CASE(
    "the state of an optimizer of another class, other groups or other shapes is refused, and says what differs") {
  check_contains(refusal([](TorchContext& ctx) {
                   auto model = ctx.prepare_model([] { return Branches{}; });
                   auto optimizer = ctx.prepare_optimizer<torch::optim::RMSprop>(model);
                   (void)ctx.restore(model, optimizer);
                 }),
                 "it is of a torch::optim::Adam, and this optimizer is a torch::optim::RMSprop");
  check_contains(refusal([](TorchContext& ctx) {
                   auto model = ctx.prepare_model([] { return Branches{}; });
                   auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model);
                   (void)ctx.restore(model, optimizer);
                 }),
                 "it has 2 parameter groups, and this optimizer has 1");
  check_contains(
      refusal([](TorchContext& ctx) {
        auto model = ctx.prepare_model([] { return Branches{}; });
        auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(
            model,
            {torch::optim::OptimizerParamGroup{{model->columns, model->second->weight, model->first->weight}},
             torch::optim::OptimizerParamGroup{{model->first->bias}}},
            {});
        raytrain::load(*ctx.checkpoint(), raytrain::TrainingState{optimizer});
      }),
      "its group 1 has 2 parameters, and that of this optimizer has 1");
  check_contains(
      refusal([](TorchContext& ctx) {
        auto model = ctx.prepare_model([] { return Branches{}; });
        auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(
            model,
            {torch::optim::OptimizerParamGroup{{model->second->weight, model->columns, model->first->weight}},
             torch::optim::OptimizerParamGroup{{model->first->bias, model->second->bias}}},
            {});
        raytrain::load(*ctx.checkpoint(), raytrain::TrainingState{optimizer});  // which knows no names
      }),
      "exp_avg of parameter 'second.weight' is {23, 7} Float there and {7, 23} Float in this optimizer");
}

TEST_CASE("the archive of an earlier version goes on in a sharded optimizer") {
  run_once({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 2}; });
    torch::optim::Adam whole{model->parameters(), 0.25};
    model(torch::ones({1, 64})).sum().backward();
    whole.step();
    auto const bytes = raytrain::state_to_bytes(whole);
    auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model, {0.5});
    raytrain::state_from_bytes(bytes, optimizer);
    CHECK(raytrain::detail::learning_rates(optimizer) == std::vector<double>{0.25});
    auto const state = optimizer.gather_state();
    CHECK(state.has_value() == (ctx.world_rank() == raytrain::Rank{0}));
    if (!state) return;
    auto const expected = raytrain::detail::optimizer_state(whole).value();
    CHECK((state->values == expected.values));
    CHECK(state->tensors.size() == 4);
  });
}

TEST_CASE("options become those that a whole optimizer has after its load, where a program refers to them") {
  run_once({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 2}; });
    using Options = torch::optim::AdamOptions;
    auto const bytes = raytrain::state_to_bytes(torch::optim::Adam{model->parameters(), Options{0.25}.eps(0.5)});
    torch::optim::Adam whole{model->parameters(), Options{0.125}};
    auto sharded = ctx.prepare_optimizer<torch::optim::Adam>(model, {0.125});
    auto const& options = static_cast<Options const&>(sharded.param_groups()[0].options());
    raytrain::state_from_bytes(bytes, whole);
    raytrain::state_from_bytes(bytes, sharded);
    CHECK((options == static_cast<Options const&>(whole.param_groups()[0].options())));
    CHECK(options.lr() == 0.25);
  });
}

TEST_CASE("a sharded optimizer is not stored by one worker alone") {
  run_once({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
    auto const optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model);
    check_contains(thrown_error([&] { return raytrain::state_to_bytes(optimizer).size(); }),
                   "its state is spread over the workers, and is asked for on this one alone; give it to "
                   "raytrain::save(model, optimizer)");
  });
}

TEST_CASE("a schedule and averaged weights beside it are stored, and go on as beside a whole optimizer") {
  auto const train = [](std::filesystem::path const& folder, int workers, bool is_sharded) {
    Tensors state;
    auto const result = run_in(folder, {.workers = workers}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 2}; });
      auto const loop = [&](auto& optimizer) {
        raytrain::CosineWithWarmup schedule{optimizer, {.warmup_steps = 2, .steps = 8}};
        raytrain::AveragedModel averaged{model, {.decay = 0.5}};
        auto const epoch = ctx.restore(model, optimizer, schedule, averaged);
        for (int step = 0; step < 3; ++step) {
          optimizer.zero_grad();
          model(torch::ones({1, 64})).square().sum().backward();
          optimizer.step();
          schedule.step();
          averaged.update();
        }
        ctx.report(Epoch{epoch, 0.5}, raytrain::save(model, optimizer, schedule, averaged));
        auto const in_place = averaged.put_in_place();
        if (ctx.world_rank() == raytrain::Rank{0}) state = copies(model->parameters());
      };
      if (is_sharded) {
        auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model, {0.1});
        loop(optimizer);
      } else {
        torch::optim::Adam optimizer{model->parameters(), 0.1};
        loop(optimizer);
      }
    });
    CHECK(result.checkpoint().has_value());
    return state;
  };
  TemporaryFolder const whole;
  TemporaryFolder const sharded;
  for (int const workers : {2, 4}) {
    CHECK(same_bits(train(sharded.path(), workers, true), train(whole.path(), workers, false)));
  }
}

TEST_CASE("a state that was held when the training ended, and one of which reports were skipped, hold all of it") {
  TemporaryFolder const folder;
  auto const train = [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 2}; });
    auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model);
    for (int epoch = 0; epoch < 5; ++epoch) {
      model(torch::ones({1, 64})).sum().backward();
      optimizer.step();
      ctx.report(Epoch{epoch, 0.5}, raytrain::save(model, optimizer));
    }
  };
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      train,
      {.scaling = {.num_workers = 3},
       .run = {.name = "run",
               .storage_path = folder.path(),
               .checkpoint = {.every = raytrain::CheckpointInterval::reports(3)},
               .handle_signals = false}}};
  auto const checkpoint = trainer.fit().checkpoint().value();
  CHECK(checkpoint.training_iteration() == 5);
  auto const stored = stored_in(checkpoint);
  CHECK(stored.tensors.size() == 4);
  CHECK(stored.values.at("0.step") == "5");
  CHECK(stored.values.at("1.step") == "5");
}
