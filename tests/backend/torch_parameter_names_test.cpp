// SPDX-License-Identifier: Apache-2.0
// Optimizers that go on with a checkpoint of a model that registers its parameters otherwise.
#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/checkpoint/safetensors.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "stored_state.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

namespace {

/// Of weights of one shape, in the order of their names; the gradient of each is another one.
struct SameShapedImpl : torch::nn::Module {
  explicit SameShapedImpl(std::vector<std::string> const& names, bool is_tied = false) {
    for (auto const& name : names) {
      auto const is_same = is_tied && name != names.front();
      register_parameter(name, is_same ? parameters().front() : torch::ones({2, 3}));
    }
  }
  [[nodiscard]] auto at(std::string const& name) const -> at::Tensor { return *named_parameters().find(name); }
  void step(torch::optim::Optimizer& optimizer) {
    optimizer.zero_grad();
    auto loss = torch::zeros({});
    for (auto const& item : named_parameters()) {
      loss = loss + item.value().sum() * static_cast<double>(item.key().back() - 'a' + 1);
    }
    loss.backward();
    optimizer.step();
  }
};
TORCH_MODULE(SameShaped);

auto momentum_sgd_of(SameShapedImpl const& net) -> torch::optim::SGD {
  return torch::optim::SGD{net.parameters(), torch::optim::SGDOptions{0.1}.momentum(0.9)};
}

auto text_of_refusal(auto const& load) -> std::string {
  return thrown_error([&] {
    load();
    return 0;
  });
}

}  // namespace

/// A program whose functions have names of raytrain's.
namespace program {

struct NetImpl : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear{2, 1});
};
TORCH_MODULE(Net);

template <class T>
auto state_of(T&) -> std::string {
  return "of the program";
}
template <class T>
auto module_of(T&) -> std::string {
  return "of the program";
}
template <class T>
auto hold_module(T&) -> std::string {
  return "of the program";
}

}  // namespace program

TEST_CASE("functions of a program's that have names of raytrain's are not called in their place") {
  TemporaryFolder const folder;
  program::Net net;
  run_in(folder.path(), {.workers = 1}, [&](TorchContext& ctx) {
    net = ctx.prepare_model([] { return program::Net{}; });
    auto optimizer = ctx.prepare_optimizer<torch::optim::SGD>(net, 0.1);
    (void)ctx.restore(net, optimizer);
    save_safetensors(net, folder.path() / "net.safetensors");
    ctx.report(Epoch{0, 0.0}, save(net, optimizer));
  });
  program::Net loaded;
  load_safetensors(loaded, folder.path() / "net.safetensors");
  CHECK(same_bits(loaded->parameters(), net->parameters()));
  CHECK(program::state_of(net) == program::module_of(net));
  CHECK(program::hold_module(net) == program::module_of(net));
}

TEST_CASE("the state of an optimizer goes to the parameters of its names, in whatever order a model registers them") {
  for (auto const was_sharded : {false, true}) {
    for (auto const is_sharded : {false, true}) {
      CAPTURE(was_sharded);
      CAPTURE(is_sharded);
      TemporaryFolder const folder;
      std::map<std::string, float> trained;
      auto const train = [&](std::vector<std::string> const& names, bool shards) {
        run_in(folder.path(), {}, [&](TorchContext& ctx) {
          auto net = ctx.prepare_model([&] { return SameShaped{names}; });
          auto const go_on = [&](auto& optimizer) {
            auto const epoch = ctx.restore(net, optimizer);
            net->step(optimizer);
            ctx.report(Epoch{epoch, 0.5}, save(net, optimizer));
          };
          if (shards) {
            auto sgd = ctx.prepare_optimizer<torch::optim::SGD>(net, torch::optim::SGDOptions{0.1}.momentum(0.9));
            go_on(sgd);
          } else {
            auto sgd = momentum_sgd_of(*net);
            go_on(sgd);
          }
          if (ctx.world_rank() != Rank{0}) return;
          for (auto const& item : net->named_parameters()) trained[item.key()] = item.value().mean().item<float>();
        });
      };
      train({"a", "b", "c"}, was_sharded);
      CHECK(trained.at("a") == doctest::Approx(0.9));
      train({"c", "a", "b"}, is_sharded);
      CHECK(trained.at("a") == doctest::Approx(1 - 0.1 * (1 + 1.9)));
      CHECK(trained.at("b") == doctest::Approx(1 - 0.2 * (1 + 1.9)));
      CHECK(trained.at("c") == doctest::Approx(1 - 0.3 * (1 + 1.9)));
    }
  }
}

TEST_CASE("an optimizer of other names is refused, and the error lists them") {
  SameShaped net{std::vector<std::string>{"a", "b"}};
  auto sgd = momentum_sgd_of(*net);
  net->step(sgd);
  Stored const stored{net, sgd};
  auto const refused = [&](std::vector<std::string> const& names) {
    SameShaped other{names};
    auto other_sgd = momentum_sgd_of(*other);
    return text_of_refusal([&] { load(stored.checkpoint(), other, other_sgd); });
  };
  check_contains(refused({"a", "d"}),
                 "optimizer.safetensors: its parameters are others: 'model.d' is not there, 'model.b' is not in this "
                 "optimizer");
  check_contains(refused({"a"}),
                 "optimizer.safetensors: its parameters are others: 'model.b' is not in this optimizer");
}

TEST_CASE("a parameter in another group of an optimizer is refused, since groups have options of their own") {
  SameShaped net{std::vector<std::string>{"a", "b", "c"}};
  auto const groups_of = [](SameShapedImpl const& of, std::string const& alone,
                            std::vector<std::string> const& others) {
    std::vector<at::Tensor> tensors;
    for (auto const& name : others) tensors.push_back(of.at(name));
    return std::vector{torch::optim::OptimizerParamGroup{{of.at(alone)}}, torch::optim::OptimizerParamGroup{tensors}};
  };
  torch::optim::SGD sgd{groups_of(*net, "a", {"b", "c"}), torch::optim::SGDOptions{0.1}.momentum(0.9)};
  net->step(sgd);
  Stored const stored{net, sgd};
  torch::optim::SGD same{groups_of(*net, "a", {"c", "b"}), torch::optim::SGDOptions{0.1}.momentum(0.9)};
  load(stored.checkpoint(), net, same);
  torch::optim::SGD other{groups_of(*net, "b", {"a", "c"}), torch::optim::SGDOptions{0.1}.momentum(0.9)};
  check_contains(
      text_of_refusal([&] { load(stored.checkpoint(), net, other); }),
      "its parameters are others: 'model.a' is in group 0 there and in group 1 of this optimizer, 'model.b' is "
      "in group 1 there and in group 0 of this optimizer");
}

TEST_CASE("an optimizer of a tensor by two names is refused where it is two, and the reverse") {
  SameShaped tied{std::vector<std::string>{"a", "b"}, true};
  auto of_tied = momentum_sgd_of(*tied);
  tied->step(of_tied);
  SameShaped apart{std::vector<std::string>{"a", "b"}};
  auto of_apart = momentum_sgd_of(*apart);
  check_contains(text_of_refusal([&] {
                   load(Stored{tied, of_tied}.checkpoint(), apart, of_apart);
                 }),
                 "optimizer.safetensors: its parameters are others: 'model.a' is there 2 times, and 1 times in this "
                 "optimizer, 'model.b' is not there");
  CHECK(of_apart.state().empty());
  auto again = momentum_sgd_of(*tied);
  check_contains(text_of_refusal([&] {
                   load(Stored{apart, of_apart}.checkpoint(), tied, again);
                 }),
                 "optimizer.safetensors: its parameters are others: 'model.a' is there 1 times, and 2 times in this "
                 "optimizer, 'model.b' is not in this optimizer");
}

TEST_CASE("an optimizer whose tensor by two names is tied to another one now is refused") {
  SameShaped net{std::vector<std::string>{"a", "b"}};
  auto const of = [&](std::vector<std::string> const& names) {
    std::vector<at::Tensor> parameters;
    for (auto const& name : names) parameters.push_back(net->at(name));
    return torch::optim::SGD{parameters, torch::optim::SGDOptions{0.1}.momentum(0.9)};
  };
  auto saved = of({"a", "b", "a"});
  net->step(saved);
  auto loaded = of({"a", "b", "b"});
  check_contains(text_of_refusal([&] {
                   load(Stored{net, saved}.checkpoint(), net, loaded);
                 }),
                 "'model.a' is there 2 times, and 1 times in this optimizer");
}

TEST_CASE("an optimizer of one model loads without another model of the checkpoint that has some of its parameters") {
  struct OuterImpl : torch::nn::Module {
    SameShaped inner = register_module("inner", SameShaped{std::vector<std::string>{"a", "b"}});
    torch::Tensor c = register_parameter("c", torch::ones({2, 3}));
  };
  auto const outer = std::make_shared<OuterImpl>();
  torch::optim::SGD saved{outer->parameters(), torch::optim::SGDOptions{0.1}.momentum(0.9)};
  outer->inner->step(saved);
  TemporaryFolder const folder;
  run_in(folder.path(), {}, [&](TorchContext& ctx) {
    ctx.report(Epoch{0, 0.5}, save(TrainingState{{"encoder", *outer->inner}, {"model", *outer}, saved}));
  });
  torch::optim::SGD loaded{outer->parameters(), torch::optim::SGDOptions{0.1}.momentum(0.9)};
  load(Result::from_path(folder.path() / "run").checkpoint().value(), TrainingState{{"model", *outer}, loaded});
  CHECK(loaded.state().size() == saved.state().size());
}

TEST_CASE("an optimizer that keeps one state of all its parameters is refused where these have another order") {
  SameShaped net{std::vector<std::string>{"a", "b"}};
  torch::optim::LBFGS saved{net->parameters()};
  saved.step([&] {
    saved.zero_grad();
    auto loss = net->at("a").square().sum() + net->at("b").square().sum() * 2;
    loss.backward();
    return loss;
  });
  SameShaped other{std::vector<std::string>{"b", "a"}};
  torch::optim::LBFGS loaded{other->parameters()};
  check_contains(text_of_refusal([&] {
                   load(Stored{net, saved}.checkpoint(), other, loaded);
                 }),
                 "the parameters have another order in this optimizer");
}

TEST_CASE("the state of an optimizer of another kind is refused with both kinds, also where it has the same tensors") {
  SameShaped net{std::vector<std::string>{"a", "b"}};
  torch::optim::Adam saved{net->parameters()};
  net->step(saved);
  torch::optim::AdamW loaded{net->parameters()};
  check_contains(text_of_refusal([&] {
                   load(Stored{net, saved}.checkpoint(), net, loaded);
                 }),
                 "it is of a torch::optim::Adam, and this optimizer is a torch::optim::AdamW; build it as it was");
}

TEST_CASE("an optimizer's file tells the names of its parameters where a model of the state has them all") {
  SameShaped net{std::vector<std::string>{"a", "b"}};
  auto sgd = momentum_sgd_of(*net);
  auto const names_in = [](CheckpointDraft const& draft) {
    auto const metadata = read_tensor_index(draft.files().at("optimizer.safetensors").view(), "a test").metadata;
    auto const names = metadata.find("parameters");
    return names == metadata.end() ? std::string{} : names->second;
  };
  CHECK(names_in(draft_of(net, sgd)) == R"(["model.a", "model.b"])");
  CHECK(names_in(draft_of(TrainingState{{"judge", net}, sgd})) == R"(["judge.a", "judge.b"])");
  CHECK(names_in(draft_of(TrainingState{sgd})).empty());
  CHECK(names_in(draft_of(SameShaped{std::vector<std::string>{"a", "b"}}, sgd)).empty());
}

TEST_CASE("a checkpoint without such names loads in order, and names that are none are corrupt") {
  SameShaped net{std::vector<std::string>{"a", "b"}};
  auto sgd = momentum_sgd_of(*net);
  net->step(sgd);
  auto const draft = draft_of(TrainingState{sgd});
  auto const file = draft.files().at("optimizer.safetensors").view();
  SameShaped other{std::vector<std::string>{"b", "a"}};
  auto loaded = momentum_sgd_of(*other);
  raytrain::detail::load_optimizer(file, loaded, "loading it", {"model.b", "model.a"});
  other->step(loaded);
  CHECK(other->at("b").mean().item<float>() == doctest::Approx(1 - 0.1 * (2 + 0.9 * 1)));

  auto index = read_tensor_index(file, "a test");
  for (auto const* const names : {"[1, 2]", "{}"}) {
    index.metadata["parameters"] = names;
    check_contains(text_of_refusal([&] {
                     (void)raytrain::detail::count_by_names(index, loaded, {"model.b", "model.a"}, "loading it");
                   }),
                   "corrupt_checkpoint: loading it: it holds no state of an optimizer: its parameters' names are no "
                   "list of names");
  }
}
