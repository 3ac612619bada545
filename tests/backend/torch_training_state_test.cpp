// SPDX-License-Identifier: Apache-2.0
// States of several models, optimizers and values, by name.
#include <torch/torch.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "torch_run.hpp"

using namespace raytrain;

namespace {

constexpr int steps_of_epoch = 10;

struct Sums {
  int step = 0;
  double loss = 0;
  std::vector<double> of_epochs{};
  void serialize(auto& a) { a(CEREAL_NVP(step), CEREAL_NVP(loss), CEREAL_NVP(of_epochs)); }
};

auto datasets() -> Datasets { return {{"train", small_images(160)}, {"beside", small_images(96)}}; }

auto floats_of(TorchBatch const& batch) -> torch::Tensor { return batch["image"].to(torch::kFloat).flatten(1) / 256; }

struct Trained {
  std::vector<Tensors> parameters{};  // of each rank
  std::vector<std::vector<double>> sums{};
};

/// Two nets against each other, each with an optimizer and a schedule of its own, on two datasets side by side. It
/// fails after each of these steps, and is started again.
auto train_two_nets(std::vector<int> failing, std::size_t steps_of_checkpoint) -> Trained {
  TemporaryFolder const folder;
  Trained trained{std::vector<Tensors>(2), std::vector<std::vector<double>>(2)};
  auto const train = [&](TorchContext& ctx) {
    auto maker = ctx.prepare_model([] {
      return torch::nn::Sequential{torch::nn::Linear{8, 32}, torch::nn::Dropout{0.5}, torch::nn::Linear{32, 64}};
    });
    auto judge = ctx.prepare_model([] {
      return torch::nn::Sequential{torch::nn::Linear{64, 16}, torch::nn::Dropout{0.25}, torch::nn::Linear{16, 1}};
    });
    torch::optim::Adam maker_adam{maker->parameters(), 1e-3};
    auto judge_adam = ctx.prepare_optimizer<torch::optim::Adam>(judge, {1e-2});
    CosineWithWarmup maker_schedule{maker_adam, {.warmup_steps = 3, .steps = 100}};
    StepDecay judge_schedule{judge_adam, {.step_size = 4, .gamma = 0.5}};
    EarlyStopping stopping{{.patience = 99}};
    auto shard = ctx.dataset_shard("train");
    auto beside = ctx.dataset_shard("beside");
    auto noise = at::detail::createCPUGenerator(7 + ctx.world_rank().value);
    Sums sums;
    TrainingState state{shard,
                        beside,
                        noise,
                        {"maker", maker},
                        {"judge", judge},
                        {"maker_adam", maker_adam},
                        {"judge_adam", judge_adam},
                        {"maker_schedule", maker_schedule},
                        {"judge_schedule", judge_schedule},
                        {"judge_stopping", stopping},
                        {"sums", sums}};
    for (auto epoch = ctx.restore(state); epoch < 3; ++epoch) {
      auto others = beside.batches({.batch_size = 4, .epoch = epoch});
      auto other = others.begin();
      for (auto const& batch : shard.batches({.batch_size = 8, .epoch = epoch})) {
        ++sums.step;
        auto real = floats_of(batch);
        if (other != others.end()) {
          real = torch::cat({real, floats_of(*other)});
          ++other;
        }
        auto const made = maker->forward(torch::randn({8, 8}, noise));
        judge_adam.zero_grad();
        auto const loss = judge->forward(made.detach()).mean() - judge->forward(real).mean();
        loss.backward();
        judge_adam.step();
        maker_adam.zero_grad();
        (-judge->forward(made).mean()).backward();
        maker_adam.step();
        maker_schedule.step();
        judge_schedule.step();
        sums.loss += loss.item<double>();
        if (static_cast<std::size_t>(sums.step) % steps_of_checkpoint == 0)
          ctx.report(Epoch{epoch, sums.loss}, save(state));
        if (ctx.world_rank() == Rank{1} && !failing.empty() && sums.step == failing.front())
          throw std::runtime_error{"as planned"};
      }
      sums.of_epochs.push_back(std::exchange(sums.loss, 0));
      stopping.step(ctx, sums.of_epochs.back());
      ctx.report(Epoch{epoch, sums.of_epochs.back()}, save(state));
    }
    auto const rank = ctx.world_rank().value;
    trained.parameters[rank] = copies(maker->parameters());
    for (auto const& parameter : copies(judge->parameters())) trained.parameters[rank].push_back(parameter);
    trained.sums[rank] = sums.of_epochs;
  };
  RunSetup const setup{.workers = 2, .datasets = datasets(), .cpus = 1};
  while (!failing.empty()) {
    CHECK_THROWS_AS(run_in(folder.path(), setup, train), TrainingFailed);
    failing.erase(failing.begin());
  }
  run_in(folder.path(), setup, train);
  return trained;
}

/// The text of the error by which `second` fails on what `first` has left.
auto refusal(TrainTorch const& first, TrainTorch const& second) -> std::string {
  TemporaryFolder const folder;
  run_in(folder.path(), {.workers = 1}, first);
  try {
    run_in(folder.path(), {.workers = 1}, second);
  } catch (TrainingFailed const& failed) {
    return failed.failures().front().text();
  }
  FAIL("must fail");
  return {};
}

auto contains(std::string const& text, std::string const& part) -> bool { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a loop that is left at the last batch of an epoch has done that epoch, and one within it has not") {
  auto const epochs_of = [](bool leaves) {
    TemporaryFolder const folder;
    std::vector<int> epochs;
    auto const train = [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
      auto shard = ctx.dataset_shard("train");
      auto beside = ctx.dataset_shard("beside");
      for (auto const& probe : beside.batches({.batch_size = 8})) {  // looks at one, before it trains
        if (probe.size() > 0) break;
      }
      TrainingState state{model, shard};
      auto const epoch = ctx.restore(state);
      if (ctx.world_rank() == Rank{0}) epochs.push_back(epoch);
      if (!epochs.empty() && epochs.size() > 1) return;
      std::size_t taken = 0;
      auto const batches = shard.batches({.batch_size = 8, .epoch = epoch});
      for (auto range = shard.batches({.batch_size = 8, .epoch = epoch}); auto const& batch : range) {
        if (batch.size() == 0 || ++taken < batches.size()) continue;
        if (leaves) break;
        ctx.report(Epoch{epoch, 0}, save(state));
        return;
      }
      ctx.report(Epoch{epoch, 0}, save(state));
    };
    RunSetup const setup{.workers = 1, .datasets = datasets(), .cpus = 1};
    run_in(folder.path(), setup, train);
    run_in(folder.path(), setup, train);
    return epochs;
  };
  CHECK(epochs_of(true) == std::vector{0, 1});
  CHECK(epochs_of(false) == std::vector{0, 0});
}

TEST_CASE(
    "an epoch goes on behind a checkpoint of its last batch, of a whole dataset and beside other shards of it, too") {
  enum class Look { none, whole, reported };
  auto const epochs_of = [](std::string const& dataset, Look look) {
    TemporaryFolder const folder;
    std::vector<int> epochs;
    auto const train = [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
      auto shard = ctx.dataset_shard(dataset);
      auto same_rows = ctx.dataset_shard(dataset);
      TrainingState state{model, shard};
      epochs.push_back(ctx.restore(state));
      if (epochs.size() > 1) return;
      auto batches = shard.batches({.batch_size = 8});
      std::size_t taken = 0;
      for (auto const& batch : batches) {
        auto const is_last = ++taken == batches.size();
        if (batch.size() == 0 || (look != Look::reported && !is_last)) continue;
        auto looked_at = same_rows.batches({.batch_size = 8});
        std::size_t seen = 0;
        for (auto const& row : looked_at) {
          if (row.size() == 0 || look == Look::none) break;
          if (++seen < looked_at.size() || look == Look::whole) continue;
          return ctx.report(Epoch{0, 0}, save(state));
        }
        return ctx.report(Epoch{0, 0}, save(state));
      }
    };
    RunSetup const setup{.workers = 1, .datasets = datasets(), .cpus = 1};
    run_in(folder.path(), setup, train);
    run_in(folder.path(), setup, train);
    return epochs;
  };
  CHECK(epochs_of("train", Look::whole) == std::vector{0, 0});
  CHECK(epochs_of("train", Look::reported) == std::vector{0, 0});
  CHECK(epochs_of("beside", Look::none) == std::vector{0, 0});
  CHECK(epochs_of("beside", Look::whole) == std::vector{0, 0});
}

TEST_CASE("a state without the shard of the epoch that a checkpoint is within is warned of, and one with it is not") {
  for (auto const has_shard : {false, true}) {
    CAPTURE(has_shard);
    TemporaryFolder const folder;
    auto begin = -1;
    auto const train = [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
      auto shard = ctx.dataset_shard("train");
      auto const epoch = has_shard ? ctx.restore(shard, model) : ctx.restore(model);
      if (ctx.world_rank() == Rank{0}) begin = epoch;
      for (auto const& batch : shard.batches({.batch_size = 8, .epoch = epoch})) {
        if (batch.size() > 0) return ctx.report(Epoch{epoch, 0.0}, save(model));
      }
    };
    run_in(folder.path(), {.workers = 2, .datasets = datasets()}, train);
    auto const result = run_in(folder.path(), {.workers = 2, .datasets = datasets()}, train);
    CHECK(begin == (has_shard ? 0 : 1));
    CHECK(warnings_with(result,
                        "the checkpoint is within epoch 0 of dataset 'train', of which 16 samples are done, and "
                        "restore() was given no shard of that name: the rest of that epoch is skipped") ==
          (has_shard ? 0 : 1));
  }
}

TEST_CASE(
    "two nets that fail anywhere in an epoch go on to the bits of an undisturbed training, each worker's sums, too") {
  auto const whole = train_two_nets({}, 4);
  CHECK(whole.sums[0].size() == 3);
  CHECK(whole.sums[0] != whole.sums[1]);
  auto const disturbed = train_two_nets({3, 9, 13, 25}, 4);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(same_bits(disturbed.parameters[rank], whole.parameters[rank]));
    CHECK(disturbed.sums[rank] == whole.sums[rank]);
  }
}

TEST_CASE("what follows the last batch of an epoch is done after a restart from a checkpoint behind that batch") {
  auto const whole = train_two_nets({}, 5);
  auto const disturbed = train_two_nets({10, 30}, 5);
  CHECK(disturbed.sums == whole.sums);
  CHECK(whole.sums[0].size() == 3);
  CHECK(same_bits(disturbed.parameters[0], whole.parameters[0]));
}

TEST_CASE(
    "workers on threads draw the numbers of dropout that each of them would draw alone, however they interleave") {
  auto const drawn_by = [](int workers, bool slow_first) {
    std::vector<torch::Tensor> drawn(2);
    run_once({.workers = workers}, [&](TorchContext& ctx) {
      auto const model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
      std::vector<torch::Tensor> all;
      auto const draw = [&] {
        for (int i = 0; i < 20; ++i) {
          all.push_back(torch::dropout(torch::ones({16}), 0.5, true));
          all.push_back(torch::randn({16}));
          all.push_back(torch::randperm(16).to(torch::kFloat));
        }
      };
      auto const is_first = (ctx.world_rank() == Rank{0}) != slow_first;
      if (is_first) draw();
      ctx.barrier();
      if (!is_first) draw();
      drawn[ctx.world_rank().value] = torch::cat(all);
    });
    return drawn;
  };
  auto const one = drawn_by(2, false);
  auto const other = drawn_by(2, true);
  CHECK(torch::equal(one[0], other[0]));
  CHECK(torch::equal(one[1], other[1]));
  CHECK_FALSE(torch::equal(one[0], one[1]));
  CHECK(torch::equal(one[0], drawn_by(1, false)[0]));
}

TEST_CASE("a model is made of the run's seed, and may seed itself, on threads with generators of their own, too") {
  Tensors made(2);
  Tensors seeded(2);
  run_once({.workers = 2}, [&](TorchContext& ctx) {
    auto const model = ctx.prepare_model([] { return torch::nn::Linear{4, 4}; });
    auto const other = ctx.prepare_model([] {
      torch::manual_seed(5);
      return torch::nn::Linear{4, 4};
    });
    made[ctx.world_rank().value] = copies(model->parameters())[0];
    seeded[ctx.world_rank().value] = copies(other->parameters())[0];
  });
  torch::manual_seed(1);
  CHECK(torch::equal(made[0], torch::nn::Linear(4, 4)->weight));
  torch::manual_seed(5);
  CHECK(torch::equal(seeded[1], torch::nn::Linear(4, 4)->weight));
}

TEST_CASE(
    "a state that lacks parts, has others, or some of another shape is refused, with all of them in one message") {
  auto const text = refusal(
      [](TorchContext& ctx) {
        auto net = ctx.prepare_model([] { return torch::nn::Linear{4, 4}; });
        auto judge = ctx.prepare_model([] { return torch::nn::Linear{2, 2}; });
        torch::optim::SGD sgd{net->parameters(), 0.1};
        int step = 3;
        ctx.report(Epoch{0, 1.0}, save(TrainingState{net, {"judge", judge}, {"sgd", sgd}, {"step", step}}));
      },
      [](TorchContext& ctx) {
        auto net = ctx.prepare_model([] { return torch::nn::Linear{4, 5}; });
        torch::optim::SGD judge{net->parameters(), 0.1};
        auto critic = ctx.prepare_model([] { return torch::nn::Linear{2, 2}; });
        double step = 0;
        (void)ctx.restore(TrainingState{net, {"judge", judge}, {"critic", critic}, {"step", step}});
      });
  CAPTURE(text);
  CHECK(contains(text, "restoring a training from "));
  CHECK(contains(text, "model 'critic' is not there"));
  CHECK(contains(text, "optimizer 'sgd' is there, and not in this state"));
  CHECK(contains(text, "'judge' is optimizer here, and model there"));
  CHECK(contains(text, "'step' is value of type double here, and value of type int there"));
  CHECK(contains(text, "model.safetensors: 'weight' is {4, 4} Float there and {5, 4} Float in this model"));
  CHECK(text.find('\n') == std::string::npos);
}

TEST_CASE("an optimizer whose parameters have other shapes, or are another model's, is refused by their names") {
  struct Nets {
    int inputs;
    bool trains_judge;
  };
  auto const train = [](Nets nets) {
    return [=](TorchContext& ctx) {
      auto net = ctx.prepare_model([&] { return torch::nn::Linear{nets.inputs, 4}; });
      auto judge = ctx.prepare_model([] { return torch::nn::Linear{4, 4}; });
      torch::optim::Adam adam{(nets.trains_judge ? judge : net)->parameters(), 0.1};
      (nets.trains_judge ? judge : net)->forward(torch::ones({1, nets.inputs})).sum().backward();
      adam.step();
      TrainingState state{net, {"judge", judge}, adam};
      (void)ctx.restore(state);
      ctx.report(Epoch{0, 1.0}, save(state));
    };
  };
  auto text = refusal(train({4, false}), train({3, false}));
  CAPTURE(text);
  CHECK(contains(text,
                 "optimizer.safetensors: exp_avg of parameter 'model.weight' is {4, 4} Float there and {4, 3} "
                 "Float in this optimizer"));
  text = refusal(train({4, false}), train({4, true}));
  CHECK(contains(text,
                 "optimizer.safetensors: its parameters are others: 'judge.bias' is not there, 'judge.weight' is not "
                 "there, 'model.bias' is not in this optimizer, 'model.weight' is not in this optimizer"));
}

TEST_CASE("a name that is empty, given twice, or that no file can have is refused before anything is stored") {
  torch::nn::Linear net{1, 1};
  torch::nn::Linear other{1, 1};
  int step = 0;
  CHECK_THROWS_WITH_AS((TrainingState{net, other}),
                       "TrainingState: two parts have the name 'model': model and model; give each part a name of its "
                       "own: {\"judge\", judge}",
                       Error);
  CHECK_THROWS_WITH_AS((TrainingState{{"step", step}, {"step", net}}),
                       doctest::Contains("two parts have the name 'step': value of type int and model"), Error);
  CHECK_THROWS_WITH_AS((TrainingState{{"", net}}), doctest::Contains("model has an empty name"), Error);
  CHECK_THROWS_WITH_AS((TrainingState{{"../net", net}}), doctest::Contains("the name '../net' has a '/'"), Error);
  CHECK_THROWS_WITH_AS((TrainingState{{"..", net}}),
                       doctest::Contains("adding the file '..' to a checkpoint: its name "), Error);
}

TEST_CASE("two schedules of one optimizer are refused, and of two optimizers they are not") {
  torch::nn::Linear net{1, 1};
  torch::optim::SGD one{net->parameters(), 0.1};
  torch::optim::SGD two{net->parameters(), 0.1};
  CosineWithWarmup cosine{one, {.steps = 10}};
  StepDecay same{one, {.step_size = 2}};
  StepDecay another{two, {.step_size = 2}};
  CHECK_THROWS_WITH_AS((TrainingState{net, one, {"cosine", cosine}, {"steps", same}}),
                       "TrainingState: 'cosine' and 'steps' are schedules of one optimizer, whose rates would be those "
                       "of the last step, and after a resume those of 'steps'; give each optimizer one schedule, such "
                       "as a RuleSchedule by a rule that joins both",
                       Error);
  TrainingState{net, {"one", one}, {"two", two}, {"cosine", cosine}, {"steps", another}};
}

TEST_CASE(
    "with another number of workers a value goes on where all had the same one, and generators draw other numbers") {
  TemporaryFolder const folder;
  std::vector<int> steps;
  std::vector<int> ranks;
  std::vector<float> drawn;
  auto const train = [&](TorchContext& ctx) {
    auto net = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
    auto noise = at::detail::createCPUGenerator(3);
    int step = 0;
    auto rank = -1;
    TrainingState state{net, noise, {"step", step}, {"rank", rank}};
    auto const epoch = ctx.restore(state);
    auto const number = torch::rand({1}, noise).item<float>();
    auto const all = ctx.all_gather(rank);
    if (ctx.world_rank() == Rank{0}) {
      steps.push_back(step);
      ranks.insert(ranks.end(), all.begin(), all.end());
      drawn.push_back(number);
    }
    ++step;
    rank = static_cast<int>(ctx.world_rank().value);
    ctx.report(Epoch{epoch, 1.0}, save(state));
  };
  constexpr auto warning = "'rank' was another one on each of the 2 workers that saved it; now there are 3";
  CHECK(warnings_with(run_in(folder.path(), {.workers = 2}, train), warning) == 0);
  CHECK(warnings_with(run_in(folder.path(), {.workers = 2}, train), warning) == 0);
  CHECK(warnings_with(run_in(folder.path(), {.workers = 3}, train), warning) == 1);
  CHECK(steps == std::vector{0, 1, 2});
  CHECK(ranks == std::vector{-1, -1, 0, 1, -1, -1, -1});
  CHECK(drawn[0] != drawn[1]);
  CHECK(drawn[2] != drawn[1]);
  CHECK(drawn[2] != drawn[0]);
}

TEST_CASE("a part of a checkpoint is loaded by its name, outside of the run, too") {
  TemporaryFolder const folder;
  Tensors trained;
  auto const result = run_in(folder.path(), {.workers = 2}, [&](TorchContext& ctx) {
    auto net = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
    auto judge = ctx.prepare_model([] { return torch::nn::Linear{2, 2}; });
    auto rank = static_cast<int>(ctx.world_rank().value) + 5;
    if (rank == 5) trained = copies(judge->parameters());
    ctx.report(Epoch{0, 1.0}, save(TrainingState{net, {"judge", judge}, {"rank", rank}}));
  });
  torch::nn::Linear judge{2, 2};
  auto rank = 0;
  load(result.checkpoint().value(), TrainingState{{"judge", judge}, {"rank", rank}});
  CHECK(same_bits(judge->parameters(), trained));
  CHECK(rank == 5);
  CHECK(result.checkpoint()->contains("judge.safetensors"));
}

TEST_CASE("of another run's checkpoint a state takes its models alone") {
  TemporaryFolder const other;
  TemporaryFolder const folder;
  auto step = 0;
  auto epoch = -1;
  Tensors models;
  auto const train = [&](TorchContext& ctx) {
    auto net = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
    auto judge = ctx.prepare_model([] { return torch::nn::Linear{2, 2}; });
    step = 0;
    TrainingState state{net, {"judge", judge}, {"step", step}};
    epoch = ctx.restore(state);
    models = copies(judge->parameters());
    torch::NoGradGuard const no_grad;
    judge->weight.add_(1);
    ++step;
    ctx.report(Epoch{epoch, 1.0}, save(state));
  };
  auto const base = run_in(other.path(), {.workers = 1}, train);
  auto const before = models;
  run_in(folder.path(), {.workers = 1, .begins_with = base.checkpoint().value()}, train);
  CHECK(epoch == 0);
  CHECK(step == 1);
  CHECK(torch::equal(models[0], before[0] + 1));
}

TEST_CASE("reports have the rates of all schedules") {
  auto const result = run_once({.workers = 1}, [](TorchContext& ctx) {
    auto net = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
    auto judge = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
    torch::optim::SGD sgd{net->parameters(), 0.5};
    torch::optim::SGD judge_sgd{judge->parameters(), 0.25};
    StepDecay schedule{sgd, {.step_size = 1, .gamma = 1}};
    StepDecay judge_schedule{judge_sgd, {.step_size = 1, .gamma = 1}};
    (void)ctx.restore(TrainingState{schedule, {"judge_schedule", judge_schedule}});
    ctx.report(Epoch{0, 1.0});
  });
  CHECK(result.metrics.number("lr") == 0.5);
  CHECK(result.metrics.number("lr_1") == 0.25);
}

TEST_CASE("an optimizer of a model that was not prepared is warned of, and none of others, nor with one worker") {
  struct Run {
    int workers;
    bool is_prepared;
    bool has_schedule_alone = false;
  };
  for (auto const& [workers, is_prepared, has_schedule_alone] :
       {Run{2, false}, Run{2, true}, Run{1, false}, Run{2, false, true}, Run{2, true, true}, Run{1, false, true}}) {
    CAPTURE(workers);
    CAPTURE(is_prepared);
    CAPTURE(has_schedule_alone);
    auto const result =
        run_once({.workers = workers}, [&, prepares = is_prepared, alone = has_schedule_alone](TorchContext& ctx) {
          torch::nn::Linear net{1, 1};
          if (prepares) net = ctx.prepare_model(net);
          auto local = ctx.prepare_local_model([] { return torch::nn::Linear{1, 1}; });
          torch::optim::SGD sgd{net->parameters(), 0.5};
          torch::optim::SGD local_sgd{local->parameters(), 0.5};
          StepDecay schedule{sgd, {.step_size = 1}};
          (void)ctx.restore(alone ? TrainingState{schedule, {"local_sgd", local_sgd}}
                                  : TrainingState{sgd, {"local_sgd", local_sgd}});
          ctx.report(Epoch{0, 1.0});
        });
    CHECK(warnings_with(result, "an optimizer trains a model that is not prepared") == (workers > 1 && !is_prepared));
  }
}
