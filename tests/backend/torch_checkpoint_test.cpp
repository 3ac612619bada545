// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/torch/training_state.hpp>

#if __has_include(<torch/optim/schedulers/reduce_on_plateau_scheduler.h>)
#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>
#endif

#include <cstddef>
#include <string>
#include <vector>

#include "../data/allocation_count.hpp"
#include "../support/temporary_folder.hpp"
#include "torch_run.hpp"

using raytrain::testing::TemporaryFolder;

namespace {

using namespace raytrain;

struct NetImpl : torch::nn::Module {
  explicit NetImpl(int width = 16)
      : first{register_module("first", torch::nn::Linear{64, width})},
        norm{register_module("norm", torch::nn::BatchNorm1d{width})},
        second{register_module("second", torch::nn::Linear{width, 10})} {}
  auto forward(torch::Tensor const& x) -> torch::Tensor { return second(torch::relu(norm(first(x.flatten(1))))); }

  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear second;
};
TORCH_MODULE(Net);

struct Adam {
  static auto make(Tensors const& parameters) { return torch::optim::Adam{parameters, 1e-2}; }
};
struct Momentum {
  static auto make(Tensors const& parameters) {
    return torch::optim::SGD{parameters, torch::optim::SGDOptions{0.05}.momentum(0.9)};
  }
};

/// Trains until `epochs` are done, and gives rank 0's parameters and buffers at the end.
template <class Optimizer>
auto train_until(int epochs, int workers, std::filesystem::path const& folder) -> Tensors {
  Tensors state;
  run_in(folder, {workers, 3, {{"train", small_images(256)}}}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{}; });
    auto optimizer = Optimizer::make(model->parameters());
    auto shard = ctx.dataset_shard("train");
    for (int epoch = ctx.restore(model, optimizer); epoch < epochs; ++epoch) {
      double loss = 0;
      for (auto batch : shard.batches({.batch_size = 32, .epoch = epoch})) {
        optimizer.zero_grad();
        auto const images = batch["image"].to(torch::kFloat) / 255;
        auto const value = torch::nn::functional::cross_entropy(model(images), batch["label"].to(torch::kLong));
        value.backward();
        optimizer.step();
        loss = value.template item<double>();
      }
      ctx.report(Epoch{epoch, loss}, save(model, optimizer));
    }
    if (ctx.world_rank() == Rank{0}) {
      state = copies(model->parameters());
      for (auto const& buffer : copies(model->buffers())) state.push_back(buffer);
    }
  });
  return state;
}

/// The text with which training on the checkpoint that `first` leaves fails.
auto failure_of(TrainTorch const& first, TrainTorch const& second) -> std::string {
  TemporaryFolder const folder;
  run_in(folder.path(), {}, first);
  try {
    run_in(folder.path(), {}, second);
  } catch (TrainingFailed const& failed) {
    return failed.failures().front().text();
  }
  FAIL("must fail");
  return {};
}

struct Step {
  double loss;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(loss));
  }
};

void save_net(TorchContext& ctx) {
  auto model = ctx.prepare_model([] { return Net{}; });
  torch::optim::Adam optimizer{model->parameters()};
  ctx.report(Epoch{0, 1.0}, save(model, optimizer));
}

}  // namespace

TEST_CASE_TEMPLATE("a run that was interrupted goes on to the very bits of one that was not", Optimizer, Adam,
                   Momentum) {
  for (int const workers : {1, 2}) {
    TemporaryFolder const whole;
    TemporaryFolder const parts;
    auto const expected = train_until<Optimizer>(4, workers, whole.path());
    auto const half = train_until<Optimizer>(2, workers, parts.path());
    CHECK_FALSE(same_bits(half, expected));
    CHECK(same_bits(train_until<Optimizer>(4, workers, parts.path()), expected));
  }
}

TEST_CASE("a state is stored in memory for its bytes, once") {
  torch::nn::Sequential model{torch::nn::Linear{1024, 1024}, torch::nn::Linear{1024, 1024}};
  auto optimizer = Adam::make(model->parameters());
  model->forward(torch::ones({1, 1024})).sum().backward();
  optimizer.step();
  auto const before = allocated_bytes();
  forget_peak();
  auto const stored = state_to_bytes(optimizer);
  CHECK(stored.size() > std::size_t{16} << 20U);
  CHECK(peak_allocated_bytes() - before < stored.size() + stored.size() / 8);
}

TEST_CASE("restore gives 0 at the beginning, else the epoch after the checkpointed one") {
  TemporaryFolder const folder;
  std::vector<int> begins;
  for (int run = 0; run < 2; ++run) {
    run_in(folder.path(), {.workers = 1}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Net{}; });
      torch::optim::SGD optimizer{model->parameters(), 0.1};
      begins.push_back(ctx.restore(model, optimizer));
      ctx.report(Epoch{7, 0.5}, save(model, optimizer));
    });
  }
  CHECK(begins == std::vector{0, 8});
}

TEST_CASE("of another run's checkpoint restore takes the model alone, from epoch 0; of the own one then everything") {
  TemporaryFolder const folder;
  TemporaryFolder const other;
  std::vector<double> rates;
  std::vector<std::size_t> moments;
  std::vector<int> begins;
  std::vector<Tensors> models;
  std::vector<float> drawn;
  auto const train = [&](double rate) {
    return [&, rate](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Net{}; });
      torch::optim::Adam optimizer{model->parameters(), rate};
      begins.push_back(ctx.restore(model, optimizer));
      rates.push_back(raytrain::detail::learning_rates(optimizer).at(0));
      moments.push_back(optimizer.state().size());
      models.push_back(copies(model->parameters()));
      drawn.push_back(torch::rand({1}, ctx.generator()).template item<float>());
      model(torch::ones({2, 64})).sum().backward();
      optimizer.step();
      models.push_back(copies(model->parameters()));
      ctx.report(Epoch{begins.back(), 0.5}, save(model, optimizer));
    };
  };
  auto const base = run_in(other.path(), {.workers = 1}, train(0.5));
  RunSetup const tuned{.workers = 1, .begins_with = base.checkpoint().value()};
  auto const first = run_in(folder.path(), tuned, train(0.25));
  run_in(folder.path(), tuned, train(0.125));
  CHECK(begins == std::vector{0, 0, 1});
  CHECK(rates == std::vector{0.5, 0.25, 0.25});
  CHECK(moments[1] == 0);
  CHECK(moments[2] > 0);
  CHECK(same_bits(models[2], models[1]));
  CHECK(same_bits(models[4], models[3]));
  CHECK(drawn[1] == drawn[0]);  // by the seed, as at the beginning of any run
  CHECK(drawn[2] != drawn[1]);
  CHECK(warnings_with(first, "learning rate") == 0);
}

TEST_CASE("restore counts reports when they have no epoch") {
  TemporaryFolder const folder;
  int begin = -1;
  for (int run = 0; run < 2; ++run) {
    run_in(folder.path(), {.workers = 1}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Net{}; });
      begin = ctx.restore(model);
      for (int i = 0; i < 3; ++i) ctx.report(Step{1.0}, save(model));
    });
  }
  CHECK(begin == 3);
}

TEST_CASE("gradients of a restored model are still averaged") {
  TemporaryFolder const folder;
  run_in(folder.path(), {}, save_net);
  run_in(folder.path(), {}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{}; });
    torch::optim::Adam optimizer{model->parameters()};
    CHECK(ctx.restore(model, optimizer) == 1);
    (model->second->bias.sum() * (ctx.world_rank().value + 1.0)).backward();
    CHECK(torch::equal(model->second->bias.grad(), torch::full({10}, 1.5)));
  });
}

TEST_CASE("only rank 0 stores a replicated state") {
  Net model;
  torch::optim::SGD optimizer{model->parameters(), 0.1};
  auto first = save(model, optimizer);
  auto second = first;
  first.fill(Rank{0});
  second.fill(Rank{1});
  CHECK(first.files().contains("model.safetensors"));
  CHECK(first.files().contains("optimizer.safetensors"));
  CHECK(second.empty());
}

TEST_CASE("a checkpoint is loaded without a trainer, into a model held by value too") {
  TemporaryFolder const folder;
  Tensors trained;
  auto const result = run_in(folder.path(), {}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{}; });
    if (ctx.world_rank() == Rank{0}) trained = copies(model->parameters());
    ctx.report(Epoch{0, 1.0}, save(model));
  });
  NetImpl model;
  CHECK_FALSE(same_bits(model.parameters(), trained));
  load(result.checkpoint().value(), model);
  CHECK(same_bits(model.parameters(), trained));
  for (auto const& parameter : model.parameters()) CHECK(parameter.requires_grad());
}

TEST_CASE("a checkpoint of another shape is refused, with the tensor and both shapes") {
  auto const text = failure_of(save_net, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{24}; });
    (void)ctx.restore(model);
  });
  CAPTURE(text);
  CHECK(text.find("model.safetensors: 'first.weight' is {16, 64} Float there and {24, 64} Float in this model, "
                  "'first.bias' is {16} Float there") != std::string::npos);
  CHECK(text.find("; build it as it was when it was saved") != std::string::npos);
}

TEST_CASE("a checkpoint of another model is refused, with the name that it lacks") {
  auto const text = failure_of(save_net, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{2, 2}; });
    (void)ctx.restore(model);
  });
  CAPTURE(text);
  CHECK(text.find("weight") != std::string::npos);
  CHECK(text.find("build it as it was when it was saved") != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
}

TEST_CASE("an optimizer of another model is refused") {
  auto const text = failure_of(save_net, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{}; });
    torch::optim::Adam optimizer{model->first->parameters()};
    (void)ctx.restore(model, optimizer);
  });
  CAPTURE(text);
  CHECK(text.find("optimizer.safetensors: its parameters are others: 'model.") != std::string::npos);
}

TEST_CASE("a checkpoint without a model is refused, with the files that it has") {
  auto const text = failure_of(
      [](TorchContext& ctx) {
        ctx.report(Epoch{0, 1.0}, CheckpointDraft::replicated([](CheckpointDraft& d) { d.add("notes.txt", "x"); }));
      },
      [](TorchContext& ctx) {
        auto model = ctx.prepare_model([] { return Net{}; });
        (void)ctx.restore(model);
      });
  CAPTURE(text);
  CHECK(text.find("it has no file 'model.safetensors'; it has notes.txt") != std::string::npos);
}

TEST_CASE("bytes that are no state are refused without LibTorch's stack") {
  Net model;
  CHECK_THROWS_WITH_AS(state_from_bytes(bytes_of("no archive"), model), doctest::Contains("loading a state: "), Error);
}

TEST_CASE_TEMPLATE("rates and their scheduler go on after a resume, as if there had been none", Optimizer, Adam,
                   Momentum) {
  auto const rates = [](int epochs, std::filesystem::path const& folder) {
    std::vector<double> seen;
    run_in(folder, {.workers = 1}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Net{}; });
      auto optimizer = Optimizer::make(model->parameters());
      torch::optim::StepLR scheduler{optimizer, 2, 0.5};
      for (int epoch = ctx.restore(model, optimizer, scheduler); epoch < epochs; ++epoch) {
        seen.push_back(optimizer.param_groups()[0].options().get_lr());
        scheduler.step();
        ctx.report(Epoch{epoch, 1.0}, save(model, optimizer, scheduler));
      }
    });
    return seen;
  };
  TemporaryFolder const whole;
  TemporaryFolder const parts;
  auto const expected = rates(8, whole.path());
  auto seen = rates(3, parts.path());
  for (auto const rate : rates(8, parts.path())) seen.push_back(rate);
  CHECK(seen == expected);
  CHECK(expected.front() > 4 * expected.back());
}

#if __has_include(<torch/optim/schedulers/reduce_on_plateau_scheduler.h>)
TEST_CASE(
    "a scheduler that waits for a plateau is no state to save, and goes on where the metrics are replayed first") {
  using Plateau = torch::optim::ReduceLROnPlateauScheduler;
  static_assert(!TorchStepper<Plateau>);
  constexpr auto metric = 1.0F;  // never becomes better
  auto const rates = [&](std::uint64_t epochs, bool replays, std::filesystem::path const& folder) {
    std::vector<double> seen;
    run_in(folder, {.workers = 1}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Net{}; });
      torch::optim::SGD optimizer{model->parameters(), 1.0};
      Plateau scheduler{optimizer, Plateau::min, 0.5F, 3};
      auto const begin = ctx.checkpoint() ? ctx.checkpoint()->training_iteration() : 0;
      for (std::uint64_t epoch = 0; replays && epoch < begin; ++epoch) scheduler.step(metric);
      (void)ctx.restore(model, optimizer);
      for (auto epoch = begin; epoch < epochs; ++epoch) {
        seen.push_back(optimizer.param_groups()[0].options().get_lr());
        scheduler.step(metric);
        ctx.report(Step{metric}, save(model, optimizer));
      }
    });
    return seen;
  };
  TemporaryFolder const whole;
  auto const expected = rates(12, true, whole.path());
  CHECK(expected.front() == 1.0);
  CHECK(expected.back() == 0.25);
  for (bool const replays : {true, false}) {
    TemporaryFolder const parts;
    auto seen = rates(6, replays, parts.path());
    for (auto const rate : rates(12, replays, parts.path())) seen.push_back(rate);
    CHECK((seen == expected) == replays);
  }
}
#endif

TEST_CASE("a rate that a resumed program sets is replaced by the checkpoint's, with a warning") {
  TemporaryFolder const folder;
  auto const train = [&](double rate) {
    return run_in(folder.path(), {}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Net{}; });
      torch::optim::Adam optimizer{model->parameters(), rate};
      auto const epoch = ctx.restore(model, optimizer);
      CHECK(optimizer.param_groups()[0].options().get_lr() == 0.25);
      ctx.report(Epoch{epoch, 1.0}, save(model, optimizer));
    });
  };
  constexpr auto text = "goes on with the learning rate 0.25 of the checkpoint instead of 0.5;";
  CHECK(warnings_with(train(0.25), "learning rate") == 0);
  CHECK(warnings_with(train(0.25), "learning rate") == 0);
  CHECK(warnings_with(train(0.5), text) == 1);
}

TEST_CASE("random numbers go on after a resume, and begin anew with another number of workers") {
  auto const draw = [](int epochs, int workers, std::filesystem::path const& folder) {
    Tensors drawn;  // rank 0's
    run_in(folder, {.workers = workers}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Net{}; });
      for (int epoch = ctx.restore(model); epoch < epochs; ++epoch) {
        auto const own = torch::rand({4}, ctx.generator());
        if (ctx.world_rank() == Rank{0}) {
          drawn.push_back(own);
          drawn.push_back(torch::cat({torch::rand({4}), torch::normal(0., 1., {4})}));  // without a generator
        }
        ctx.report(Epoch{epoch, 1.0}, save(model));
      }
    });
    return drawn;
  };
  for (int const workers : {1, 2}) {
    TemporaryFolder const whole;
    TemporaryFolder const parts;
    auto const expected = draw(4, workers, whole.path());
    auto drawn = draw(2, workers, parts.path());
    for (auto const& tensor : draw(4, workers, parts.path())) drawn.push_back(tensor);
    REQUIRE(drawn.size() == 8);
    for (std::size_t i = 0; i < 8; ++i) CHECK(torch::equal(drawn[i], expected[i]));
    auto const with_another = draw(5, 3, parts.path());
    REQUIRE(with_another.size() == 2);
    for (auto const& tensor : drawn) CHECK_FALSE(torch::equal(tensor, with_another[0]));
  }
}

TEST_CASE(
    "a worker's generator draws other numbers than operations without one, after another number of workers, too") {
  TemporaryFolder const folder;
  for (int const workers : {1, 2}) {
    run_in(folder.path(), {.workers = workers}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Net{}; });
      auto const epoch = ctx.restore(model);
      CHECK_FALSE(torch::equal(torch::rand({4}, ctx.generator()), torch::rand({4})));
      ctx.report(Epoch{epoch, 1.0}, save(model));
    });
  }
}

TEST_CASE("a model that is prepared later lets no random number come again") {
  for (int const workers : {1, 2}) {
    run_once({.workers = workers}, [&](TorchContext& ctx) {
      auto const before = torch::rand({4});
      auto const model = ctx.prepare_model([] { return Net{}; });
      CHECK_FALSE(torch::equal(torch::rand({4}), before));
    });
  }
}

TEST_CASE("a checkpoint that is reported again keeps the random numbers' states that it has") {
  TemporaryFolder const folder;
  run_in(folder.path(), {.workers = 1}, save_net);
  auto const result = run_in(folder.path(), {.workers = 1}, [](TorchContext& ctx) {
    ctx.report(Epoch{1, 1.0}, CheckpointDraft{*ctx.checkpoint()});
  });
  CHECK(result.checkpoint()->files().size() == 3);
}
