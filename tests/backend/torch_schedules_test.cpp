// SPDX-License-Identifier: Apache-2.0
// Learning rates that follow a schedule: what reports and checkpoints know of it, and runs that go on.
#include <raytrain/backend/torch/lr_schedule.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/averaged_model.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/train/early_stopping.hpp>

#include "../support/thrown_error.hpp"
#include "stored_state.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

using namespace raytrain;

auto sgd_of(torch::nn::Linear const& model, double rate) -> torch::optim::SGD {
  return torch::optim::SGD{model->parameters(), torch::optim::SGDOptions{rate}.momentum(0.5)};
}

/// Two groups: a weight and a bias, with rates of their own.
auto grouped_sgd(torch::nn::Linear const& model) -> torch::optim::SGD {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(Tensors{model->weight}, std::make_unique<torch::optim::SGDOptions>(0.5));
  groups.emplace_back(Tensors{model->bias}, std::make_unique<torch::optim::SGDOptions>(0.25));
  return torch::optim::SGD{groups, torch::optim::SGDOptions{1}};
}

using Rates = std::vector<double>;

auto rates_in(torch::optim::Optimizer& optimizer) -> Rates { return raytrain::detail::learning_rates(optimizer); }

struct MakeCosine {
  static auto make(torch::optim::Optimizer& optimizer) {
    return std::make_unique<CosineWithWarmup>(optimizer, CosineRule{.warmup_steps = 5, .steps = 30});
  }
};
struct MakeRestarts {
  static auto make(torch::optim::Optimizer& optimizer) {
    return std::make_unique<CosineWithRestarts>(optimizer, RestartsRule{.period = 3, .period_factor = 2});
  }
};
struct MakeOneCycle {
  static auto make(torch::optim::Optimizer& optimizer) {
    return std::make_unique<OneCycle>(optimizer, OneCycleRule{.steps = 32});
  }
};
struct MakePlateau {
  static auto make(torch::optim::Optimizer& optimizer) {
    return std::make_unique<ReduceOnPlateau>(optimizer,
                                             ReduceOnPlateauConfig{.factor = 0.5, .patience = 1, .cooldown = 3});
  }
};

/// Rank 0's parameters and rates at the end of a training up to `epochs`, which steps the schedule with each batch.
template <class Make>
auto scheduled_training(int epochs, std::filesystem::path const& folder) -> std::pair<Tensors, Rates> {
  Tensors parameters;
  Rates rates;
  run_in(folder, {2, 5, {{"train", small_images(256)}}}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
    auto optimizer = sgd_of(model, 0.1);
    auto const schedule = Make::make(optimizer);
    auto shard = ctx.dataset_shard("train");
    for (auto epoch = ctx.restore(model, optimizer, *schedule); epoch < epochs; ++epoch) {
      for (auto const& batch : shard.batches({.batch_size = 16, .epoch = epoch})) {
        optimizer.zero_grad();
        auto const images = batch["image"].to(torch::kFloat).flatten(1) / 255;
        auto const loss = torch::nn::functional::cross_entropy(model(images), batch["label"].to(torch::kLong));
        loss.backward();
        optimizer.step();
        if constexpr (requires { schedule->step(); }) {
          schedule->step();
        } else {
          schedule->step(ctx, loss.template item<double>());
        }
      }
      ctx.report(Epoch{epoch, 1.0}, save(model, optimizer, *schedule));
    }
    if (ctx.world_rank() != Rank{0}) return;
    parameters = copies(model->parameters());
    rates = rates_in(optimizer);
  });
  return {parameters, rates};
}

/// The rates after each value that a plateau's schedule takes; values by rank, and so is what is returned.
auto plateau_rates(ReduceOnPlateauConfig const& config, std::vector<Rates> const& values) -> std::vector<Rates> {
  std::vector<Rates> rates(values.size());
  run_once({.workers = static_cast<int>(values.size())}, [&](TorchContext& ctx) {
    torch::nn::Linear const model{1, 1};
    auto optimizer = sgd_of(model, 1);
    ReduceOnPlateau schedule{optimizer, config};
    auto const rank = ctx.world_rank().value;
    for (auto const value : values[rank]) {
      schedule.step(ctx, value);
      rates[rank].push_back(rates_in(optimizer).at(0));
    }
  });
  return rates;
}

/// The metrics "lr" and "lr_1" of a report.
auto lr_of(Metrics const& metrics) -> Rates { return {metrics.number("lr").value(), metrics.number("lr_1").value()}; }

/// Columns x, and y that follows from it.
auto line_of_points() -> Datasets {
  std::vector<float> x(256);
  std::vector<float> y(256);
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = 2 * (x[i] = static_cast<float>(i) / 256) + 1;
  auto const points = Dataset::from_columns({{"x", x, {1}}, {"y", y, {1}}});
  return {{"train", points}, {"validation", points}};
}

auto loss_of(torch::nn::Linear& model, TorchBatch const& batch) -> torch::Tensor {
  return torch::mse_loss(model(batch["x"]), batch["y"]);
}

auto validation_loss(TorchContext& ctx, torch::nn::Linear& model) -> double {
  torch::NoGradGuard const no_grad;
  auto shard = ctx.dataset_shard("validation");
  return loss_of(model, shard.batches({.batch_size = 256})[0]).item<double>();
}

void train_with_helpers(raytrain::TorchContext& ctx) {
  auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
  torch::optim::SGD optimizer{model->parameters(), 0.3};
  raytrain::CosineWithWarmup schedule{optimizer, {.warmup_steps = 20, .steps = 400}};
  raytrain::AveragedModel averaged{model, {.decay = 0.9}};
  raytrain::EarlyStopping stopping{{.patience = 3, .min_delta = 1e-6}};
  auto shard = ctx.dataset_shard("train");
  raytrain::TrainingState state{model, optimizer, schedule, averaged, stopping};
  auto epoch = ctx.restore(state);
  for (; epoch < 1000 && !stopping.is_over(); ++epoch) {
    for (auto const& batch : shard.batches({.batch_size = 16, .epoch = epoch})) {
      optimizer.zero_grad();
      loss_of(model, batch).backward();
      optimizer.step();
      schedule.step();
      averaged.update();
    }
    auto const loss = [&] {
      auto const in_place = averaged.put_in_place();  // the model has the averaged weights in this block
      return validation_loss(ctx, model);
    }();
    stopping.step(ctx, loss);  // by the mean of all workers
    ctx.report(Epoch{epoch, loss}, raytrain::save(state));
  }
}

/// A rule of a program's.
struct HalvedRule {
  static constexpr std::string_view name = "Halved";
  std::int64_t first = 0;
  void validate() const {}
  [[nodiscard]] auto settings() const -> std::string { return "first " + std::to_string(first); }
  [[nodiscard]] auto factor(std::int64_t step) const -> double { return step < first ? 1 : 0.5; }
};

/// A rule that breaks its promise at the second step.
struct BrokenRule {
  static constexpr std::string_view name = "Broken";
  double second = 0;
  void validate() const {}
  [[nodiscard]] auto settings() const -> std::string { return "second " + std::to_string(second); }
  [[nodiscard]] auto factor(std::int64_t step) const -> double { return step == 0 ? 1 : second; }
};

/// A directory with this as its schedule.json.
auto with_schedule_file(std::string_view content) -> Stored {
  CheckpointDraft draft;
  draft.add("schedule.json", content);
  return Stored{draft};
}

/// A class of a program's, with a file of its own.
struct Notes {
  std::string text;
  void add_to(CheckpointDraft& draft) const { draft.add("notes.txt", std::string_view{text}); }
  auto load_from(Checkpoint const& checkpoint) -> std::string {
    auto const bytes = checkpoint.read("notes.txt");
    text = text_of(bytes);
    return "the notes are old";
  }
};

struct WithRate {
  double loss = 0;
  double lr = 0;
  void serialize(auto& a) { a(CEREAL_NVP(loss), CEREAL_NVP(lr)); }
};

}  // namespace

TEST_CASE("each parameter group keeps its own base rate") {
  torch::nn::Linear const model{2, 1};
  auto optimizer = grouped_sgd(model);
  LinearWithWarmup schedule{optimizer, {.warmup_steps = 2, .steps = 6}};
  std::vector<Rates> seen{rates_in(optimizer)};
  for (int step = 0; step < 4; ++step) {
    schedule.step();
    seen.push_back(rates_in(optimizer));
    CHECK(schedule.rates() == seen.back());
  }
  CHECK(seen == std::vector<Rates>{{0, 0}, {0.25, 0.125}, {0.5, 0.25}, {0.375, 0.1875}, {0.25, 0.125}});
}

TEST_CASE_TEMPLATE("a run with a schedule that was interrupted goes on to the very bits of one that was not", Make,
                   MakeCosine, MakeRestarts, MakeOneCycle, MakePlateau) {
  TemporaryFolder const whole;
  TemporaryFolder const parts;
  auto const expected = scheduled_training<Make>(4, whole.path());
  auto const half = scheduled_training<Make>(2, parts.path());
  CHECK(half.second != expected.second);
  auto const resumed = scheduled_training<Make>(4, parts.path());
  CHECK(resumed.second == expected.second);
  CHECK(same_bits(resumed.first, expected.first));
}

TEST_CASE("a plateau reduces with the value after its patience, and counts none while it cools down") {
  CHECK(plateau_rates({.factor = 0.5, .patience = 1}, {{3, 2, 2, 2, 2, 2}}) ==
        std::vector<Rates>{{1, 1, 1, 0.5, 0.5, 0.25}});
  CHECK(plateau_rates({.factor = 0.5, .patience = 0, .cooldown = 2}, {{1, 1, 1, 1, 1, 1}}) ==
        std::vector<Rates>{{1, 0.5, 0.5, 0.5, 0.25, 0.25}});
  CHECK(plateau_rates({.factor = 0.5, .patience = 0, .least_factor = 0.375}, {{1, 1, 1, 1}}) ==
        std::vector<Rates>{{1, 0.5, 0.375, 0.375}});
  CHECK(plateau_rates({.factor = 0.5, .patience = 0, .mode = ScoreOrder::max, .min_delta = 0.5}, {{1, 1.5, 3}}) ==
        std::vector<Rates>{{1, 0.5, 0.5}});
}

TEST_CASE("all ranks reduce at once, where their values differ and where one's is NaN") {
  auto const nan = std::numeric_limits<double>::quiet_NaN();
  for (auto const& rates : plateau_rates({.factor = 0.5, .patience = 0}, {{4, 3, 2}, {4, 6, 1}})) {
    CHECK(rates == Rates{1, 0.5, 0.5});  // of the means 4, 4.5 and 1.5
  }
  for (auto const& rates : plateau_rates({.factor = 0.5, .patience = 1}, {{4, 3, nan, 2}, {4, 3, 2, nan}})) {
    CHECK(rates == Rates{1, 1, 1, 0.5});
  }
}

TEST_CASE("reports have the rate of each group once a schedule is restored, and none before") {
  auto const result = run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
    auto optimizer = grouped_sgd(model);
    StepDecay schedule{optimizer, {.step_size = 1, .gamma = 0.5}};
    (void)ctx.restore(model, optimizer, schedule);
    ctx.report(Epoch{0, 1.0});
    schedule.step();
    ctx.report(Epoch{1, 1.0}, save(model, optimizer, schedule));
  });
  REQUIRE(result.history.size() == 2);
  CHECK(lr_of(result.history[0].metrics) == Rates{0.5, 0.25});
  CHECK(lr_of(result.history[1].metrics) == Rates{0.25, 0.125});
  CHECK(result.history[1].metrics.number("epoch") == 1);
  auto const without = run_once({.workers = 1}, [](TorchContext& ctx) {
    {
      torch::nn::Linear model{2, 1};
      auto optimizer = sgd_of(model, 1);
      StepDecay schedule{optimizer, {.step_size = 1}};
      (void)ctx.restore(model, optimizer, schedule);
    }
    ctx.report(Epoch{0, 1.0});  // the schedule is gone
  });
  CHECK_FALSE(without.history[0].metrics.contains("lr"));
}

TEST_CASE("a field of the program's that is called lr stays as it is") {
  auto const result = run_once({.workers = 1}, [](TorchContext& ctx) {
    torch::nn::Linear model{2, 1};
    auto optimizer = sgd_of(model, 1);
    StepDecay schedule{optimizer, {.step_size = 1}};
    (void)ctx.restore(model, optimizer, schedule);
    ctx.report(WithRate{.loss = 1, .lr = 7});
    ctx.report(Metrics{{"loss", 2.0}, {"lr", 8.0}});
  });
  CHECK(result.history[0].metrics.number("lr") == 7);
  CHECK(result.history[1].metrics.number("lr") == 8);
}

TEST_CASE("a schedule goes on with this program's settings, and says which were others") {
  TemporaryFolder const folder;
  Rates seen;
  auto const train = [&](double rate, std::int64_t steps) {
    return [&seen, rate, steps](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
      auto optimizer = sgd_of(model, rate);
      LinearWithWarmup schedule{optimizer, {.steps = steps}};
      auto const epoch = ctx.restore(model, schedule, optimizer);  // in any order
      seen.push_back(rates_in(optimizer).at(0));
      schedule.step();
      ctx.report(Epoch{epoch, 1.0}, save(model, optimizer, schedule));
    };
  };
  auto const first = run_in(folder.path(), {.workers = 1}, train(1, 4));
  auto const same = run_in(folder.path(), {.workers = 1}, train(1, 4));
  auto const longer = run_in(folder.path(), {.workers = 1}, train(0.5, 8));
  CHECK(seen == Rates{1, 0.75, 0.375});
  CHECK(warnings_with(first, "schedule") == 0);
  CHECK(warnings_with(same, "schedule") == 0);
  CHECK(warnings_with(same, "learning rate") == 0);
  CHECK(warnings_with(longer,
                      "the schedule LinearWithWarmup goes on at step 2 with other settings than the checkpoint's: "
                      "warmup_steps 0, steps 8, first_factor 1, last_factor 0, base rates 0.5; they were "
                      "warmup_steps 0, steps 4, first_factor 1, last_factor 0, base rates 1") == 1);
}

TEST_CASE("a rule and a state of the program's are saved and restored as those that are there") {
  TemporaryFolder const folder;
  std::vector<std::string> seen;
  Rates rates;
  Result last;
  for (int run = 0; run < 2; ++run) {
    last = run_in(folder.path(), {.workers = 1}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
      auto optimizer = sgd_of(model, 1);
      RuleSchedule<HalvedRule> schedule{optimizer, {.first = 1}};
      Notes notes{"new"};
      auto const epoch = ctx.restore(model, optimizer, schedule, notes);
      seen.push_back(notes.text);
      rates.push_back(rates_in(optimizer).at(0));
      notes.text = "written";
      schedule.step();
      ctx.report(Epoch{epoch, 1.0}, save(model, notes, schedule, optimizer));
    });
  }
  CHECK(seen == std::vector<std::string>{"new", "written"});
  CHECK(rates == Rates{1, 0.5});
  CHECK(warnings_with(last, "the notes are old") == 1);
}

TEST_CASE("two schedules lie in one checkpoint where one has a name, and are refused where not") {
  torch::nn::Linear model{2, 1};
  auto optimizer = sgd_of(model, 1);
  auto other_optimizer = sgd_of(model, 1);
  StepDecay first{optimizer, {.step_size = 3}};
  ExponentialDecay second{other_optimizer, {.gamma = 0.5}};
  second.step();
  check_contains(thrown_error([&] { (void)draft_of(model, first, second); }),
                 "two parts have the name 'schedule': schedule and schedule; give each part a name of its own");
  Stored const stored{TrainingState{model, first, {"second", second}}};
  CHECK(stored.names() == "model.safetensors schedule.json second.json ");
  ExponentialDecay resumed{other_optimizer, {.gamma = 0.5}};
  load(stored.checkpoint(), TrainingState{first, {"second", resumed}});
  CHECK(first.steps_done() == 0);
  CHECK(resumed.steps_done() == 1);
}

TEST_CASE("a checkpoint's schedule of another kind, or for another number of groups, is refused") {
  torch::nn::Linear model{2, 1};
  auto optimizer = sgd_of(model, 1);
  StepDecay schedule{optimizer, {.step_size = 3}};
  Stored const stored{model, optimizer, schedule};
  CHECK(stored.names() == "model.safetensors optimizer.safetensors schedule.json ");
  ReduceOnPlateau plateau{optimizer};
  check_contains(
      thrown_error([&] { load(stored.checkpoint(), model, optimizer, plateau); }),
      "schedule.json: it is of the schedule StepDecay, and this one is a ReduceOnPlateau; build it as it was");
  auto grouped = grouped_sgd(model);
  StepDecay of_groups{grouped, {.step_size = 3}};
  check_contains(thrown_error([&] { load(stored.checkpoint(), model, of_groups); }),
                 "schedule.json: it is of 1 parameter groups, and this optimizer has 2; build it as it was");
  Stored const without{model, optimizer};
  check_contains(thrown_error([&] { load(without.checkpoint(), model, schedule); }), "has no file 'schedule.json'");
}

TEST_CASE("a schedule of an optimizer without parameters, and one with settings that cannot work, are refused") {
  torch::optim::SGD empty{Tensors{}, torch::optim::SGDOptions{1}};
  CHECK(thrown_error([&] {
          StepDecay{empty, {.step_size = 1}};
        }) ==
        "invalid_config: a StepDecay of an optimizer: it has no parameters; make it of an optimizer as LibTorch's, "
        "which has the parameters of a model");
  torch::nn::Linear const model{2, 1};
  auto optimizer = sgd_of(model, 1);
  check_contains(thrown_error([&] { CosineWithWarmup{optimizer, {}}; }), "CosineWithWarmup::steps: must be at least 1");
  CHECK(rates_in(optimizer) == Rates{1});
  check_contains(thrown_error([&] {
                   ReduceOnPlateau{optimizer, {.factor = 1}};
                 }),
                 "ReduceOnPlateauConfig::factor: must be above 0 and below 1 (got 1)");
  check_contains(thrown_error([&] { ReduceOnPlateau{optimizer, {.patience = -1}}; }), "must be at least 0 (got -1)");
}

TEST_CASE("a plateau's file with numbers that no plateau has is refused, and changes nothing") {
  torch::nn::Linear const model{2, 1};
  auto optimizer = sgd_of(model, 1);
  ReduceOnPlateau plateau{optimizer};
  auto const load_with = [&](std::string const& steps, std::string const& progress) {
    auto const stored =
        with_schedule_file(R"({"kind": "ReduceOnPlateau", "settings": "", "base_rates": [1.0], "steps_done": )" +
                           steps + R"(, "progress": [)" + progress + "]}");
    return plateau.load_from(stored.checkpoint());
  };
  for (auto const* const progress :
       {"", "1.0, 2.0, 1.0", R"(1.0, "NaN", 1.0, 0.0)", "1.0, -2.0, 1.0, 0.0", "1.0, 2.0, 0.5, 0.0",
        R"(1.0, 2.0, "Infinity", 0.0)", "1.0, 2.0, 1.0, 1e300", "1.0, 2.0, 1.0, 0.0, 0.0"}) {
    CAPTURE(std::string{progress});
    check_contains(thrown_error([&] { (void)load_with("3", progress); }),
                   "schedule.json: what it holds of the progress is none of a ReduceOnPlateau");
  }
  check_contains(thrown_error([&] { (void)load_with("-3", "1.0, 2.0, 1.0, 0.0"); }), "none of a ReduceOnPlateau");
  CHECK(plateau.steps_done() == 0);
  CHECK(rates_in(optimizer) == Rates{1});
  CHECK_FALSE(load_with("3", R"("NaN", 2.0, 1.0, 4.0)").empty());
  CHECK(plateau.steps_done() == 3);
  CHECK(rates_in(optimizer) == Rates{0.1});
}

TEST_CASE("a rate that is not finite, or below 0, never comes to the optimizer") {
  torch::nn::Linear const model{2, 1};
  auto optimizer = sgd_of(model, 0.5);
  ExponentialDecay growing{optimizer, {.gamma = 1e200}};
  growing.step();
  CHECK(thrown_error([&] { growing.step(); }) ==
        "invalid_config: ExponentialDecay at step 2: its factor makes of the base rate 0.5 the rate inf, which must be "
        "finite and not negative; its settings are gamma 1e+200, warmup_steps 0: choose others, or end before");
  CHECK(rates_in(optimizer) == Rates{5e199});
  for (auto const second : {std::numeric_limits<double>::quiet_NaN(), -1.0}) {
    auto of_broken = sgd_of(model, 0.5);
    RuleSchedule<BrokenRule> broken{of_broken, {second}};
    check_contains(thrown_error([&] { broken.step(); }), "Broken at step 1: its factor makes of the base rate 0.5");
    CHECK(rates_in(of_broken) == Rates{0.5});
  }
}

TEST_CASE("a schedule of rates that are 0 is refused, as the second one of an optimizer whose first one warms up") {
  torch::nn::Linear const model{2, 1};
  auto optimizer = sgd_of(model, 0.5);
  LinearWithWarmup const first{optimizer, {.warmup_steps = 2, .steps = 9}};
  check_contains(
      thrown_error([&] { ReduceOnPlateau{optimizer}; }),
      "a ReduceOnPlateau of an optimizer: its learning rates are 0, and so they would stay; make one schedule "
      "of an optimizer");
}

TEST_CASE("a parameter group that comes after the schedule is refused at the next step") {
  torch::nn::Linear const model{2, 1};
  torch::nn::Linear const head{1, 1};
  auto optimizer = sgd_of(model, 0.5);
  StepDecay schedule{optimizer, {.step_size = 1}};
  optimizer.add_param_group(torch::optim::OptimizerParamGroup{head->parameters()});
  check_contains(thrown_error([&] { schedule.step(); }),
                 "StepDecay at step 1: its optimizer has 2 parameter groups, and had 1 when the schedule was made");
}

TEST_CASE("early stopping is saved and restored beside a model, and ends all ranks at once") {
  TemporaryFolder const folder;
  std::vector<int> epochs;
  auto const train = [&](int most) {
    return [&epochs, most](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
      EarlyStopping stopping{{.patience = 3}};
      for (int epoch = ctx.restore(model, stopping); epoch < most && !stopping.is_over(); ++epoch) {
        auto const own_loss = 1.0 + epoch * (ctx.world_rank() == Rank{0} ? 1 : -0.5);  // the mean rises
        stopping.step(ctx, own_loss);
        if (ctx.world_rank() == Rank{0}) epochs.push_back(epoch);
        ctx.report(Epoch{epoch, own_loss}, save(model, stopping));
      }
    };
  };
  run_in(folder.path(), {}, train(2));
  run_in(folder.path(), {}, train(9));
  CHECK(epochs == std::vector{0, 1, 2, 3});
}

TEST_CASE("schedule, average and early stopping train one model together, and lie in one checkpoint") {
  TemporaryFolder const folder;
  auto const result = run_in(folder.path(), {.datasets = line_of_points()}, train_with_helpers);
  CHECK(result.history.size() < 100);
  CHECK(result.metrics.number("loss").value() < 1e-4);
  CHECK(result.history.front().metrics.number("lr").value() == doctest::Approx(0.3 * 8 / 20));
  for (auto const* const file : {"model.safetensors", "optimizer.safetensors", "schedule.json",
                                 "averaged_model.safetensors", "early_stopping.json"}) {
    CAPTURE(file);
    CHECK(result.checkpoint().value().contains(file));
  }
}
