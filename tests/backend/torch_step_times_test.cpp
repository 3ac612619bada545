// SPDX-License-Identifier: Apache-2.0
// Where the time of a worker's steps goes.
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <raytrain/collective/local.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/clock.hpp>

#include "torch_run.hpp"

namespace {

using namespace raytrain;
using raytrain::detail::StepTimer;
using Seconds = std::array<double, 6>;

/// Each reading comes one second after the one before: what lies between two of them lasts one.
class ReadingClock final : public Clock {
 public:
  [[nodiscard]] auto now() const noexcept -> TimePoint override { return now_ += std::chrono::seconds{1}; }
  [[nodiscard]] auto wall_now() const noexcept -> WallTime override { return {}; }

 private:
  mutable TimePoint now_{};
};

auto data_of(std::size_t rows) -> Dataset {
  return Dataset::from_columns({{"x", std::vector<float>(rows, 1), {1}}, {"y", std::vector<float>(rows, 2), {1}}});
}

/// Data, forward, backward, exchange, optimizer, rest.
auto seconds_of(StepTimer& timer) -> Seconds {
  auto const times = timer.times();
  return {times.data_s, times.forward_s, times.backward_s, times.exchange_s, times.optimizer_s, times.rest_s};
}

auto sum_of(StepTimes const& times) -> double {
  return times.data_s + times.forward_s + times.backward_s + times.exchange_s + times.optimizer_s + times.rest_s;
}

/// A shard without a trainer, and a model, with a clock that counts its readings.
struct Timed {
  explicit Timed(ShardOptions const& place = {}) : shard{DatasetShard{data_of(6), place}, {.timer = timer}} {}

  void backward(TorchBatch const& batch) { torch::mse_loss(model(batch["x"]), batch["y"]).backward(); }

  ReadingClock clock;
  std::shared_ptr<StepTimer> timer = std::make_shared<StepTimer>(clock);
  torch::nn::Linear model{1, 1};
  TorchShard shard;
};

/// What it starts is over once somebody has waited for it.
class Deferred final : public WrappedCollective {
 public:
  Deferred(Collective& inside, bool& is_over) : WrappedCollective{inside}, is_over_{is_over} {}

  [[nodiscard]] auto start(Task const&) -> Pending override { return Pending{std::make_unique<Work>(is_over_)}; }

 private:
  struct Work final : Pending::Work {
    explicit Work(bool& is_over_) : is_over{is_over_} {}
    void wait() override { is_over = true; }
    bool& is_over;
  };

  bool& is_over_;
};

/// SGD whose step takes ten seconds of the clock.
class SlowSgd final : public torch::optim::SGD {
 public:
  SlowSgd(std::vector<torch::optim::OptimizerParamGroup> groups, torch::optim::SGDOptions const& options,
          ReadingClock const& clock)
      : SGD{std::move(groups), options}, clock_{clock} {}

  auto step(LossClosure closure = nullptr) -> at::Tensor override {
    for (int reading = 0; reading < 10; ++reading) (void)clock_.now();
    return SGD::step(std::move(closure));
  }

 private:
  ReadingClock const& clock_;
};

/// One of `workers` optimizers of a model; each thread makes one.
auto slow_optimizer_of(torch::nn::Linear const& model, Collective& collective, ReadingClock const& clock,
                       std::shared_ptr<StepTimer> timer) -> ShardedOptimizer {
  torch::optim::SGDOptions const options{0.1};
  auto const make = [options, &clock](std::vector<torch::optim::OptimizerParamGroup> groups) {
    return std::make_unique<SlowSgd>(std::move(groups), options, clock);
  };
  return ShardedOptimizer{{.module = *model,
                           .collective = collective,
                           .arrays = collective,
                           .device = torch::kCPU,
                           .number = 1,
                           .groups = {torch::optim::OptimizerParamGroup{model->parameters()}},
                           .defaults = std::make_unique<torch::optim::SGDOptions>(options),
                           .make = make,
                           .is_local = {},
                           .timer = std::move(timer)}};
}

struct TimedEpoch {
  int epoch = 0;
  StepTimes times;
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(times)); }
};

/// Takes 50 ms to be reported.
struct SlowReport {
  int epoch = 0;
  void serialize(auto& a) {
    auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds{50};
    while (std::chrono::steady_clock::now() < end) continue;
    a(CEREAL_NVP(epoch));
  }
};

/// Each report's times, of rank 0.
auto times_of_run(int workers, int virtual_shards = 0, int accumulate = 1) -> std::vector<StepTimes> {
  TemporaryFolder const folder;
  Trainer<TorchBackend> trainer{
      [&](TorchContext& ctx) {
        auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
        torch::optim::SGD optimizer{model->parameters(), 0.1};
        std::optional<std::chrono::steady_clock::time_point> report_before;
        for (int epoch = 0; epoch < 2; ++epoch) {
          for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 8, .epoch = epoch})) {
            auto const is_last = ctx.accumulate(accumulate);
            optimizer.zero_grad();
            torch::mse_loss(model(batch["x"]), batch["y"]).backward();
            if (is_last) optimizer.step();
          }
          auto const times = ctx.step_times();
          auto const now = std::chrono::steady_clock::now();
          if (report_before) CHECK(sum_of(times) <= std::chrono::duration<double>{now - *report_before}.count());
          report_before = now;
          ctx.report(TimedEpoch{epoch, times});
        }
      },
      {.scaling = {.num_workers = workers, .virtual_shards = virtual_shards},
       .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
       .datasets = {{"train", data_of(64)}}}};
  auto const result = trainer.fit();
  std::vector<StepTimes> times;
  for (auto const& report : result.history) times.push_back(metrics_cast<TimedEpoch>(report.metrics).times);
  REQUIRE(times.size() == 2);
  return times;
}

}  // namespace

TEST_CASE(
    "a worker computes while an operation goes on that it has started, and exchanges only in its start and wait") {
  LocalCollective inside{std::make_shared<LocalGroup>(WorldSize{1}), Rank{0}};
  auto is_over = false;
  ReadingClock const clock;
  auto const timer = std::make_shared<StepTimer>(clock);
  raytrain::detail::TimedCollective timed{std::make_unique<Deferred>(inside, is_over), timer};
  auto started = timed.start({});
  CHECK_FALSE(is_over);
  started.wait();
  CHECK(is_over);
  CHECK(seconds_of(*timer) == Seconds{0, 0, 0, 2, 0, 3});
}

TEST_CASE("a step of a prepared optimizer is the optimizer's, but for its exchange and the backward of a closure") {
  auto const ranks = local_collectives(WorldSize{2}, {});
  ReadingClock const clock;
  auto const timer = std::make_shared<StepTimer>(clock);
  std::jthread const other{[&] {
    torch::nn::Linear model{1, 1};
    auto const collective = ranks.collective_of(Rank{1});
    ReadingClock const own_clock;
    auto optimizer = slow_optimizer_of(model, *collective, own_clock, nullptr);
    optimizer.step();
    model->forward(torch::ones({1, 1})).sum().backward();
    optimizer.step();
  }};
  torch::nn::Linear model{1, 1};
  raytrain::detail::time_backwards(*model, timer);
  raytrain::detail::TimedCollective collective{ranks.collective_of(Rank{0}), timer};
  auto optimizer = slow_optimizer_of(model, collective, clock, timer);
  timer->restart();
  optimizer.step();
  CHECK(seconds_of(*timer) == Seconds{0, 0, 0, 1, 1 + 10 + 1, 1 + 1});
  timer->restart();
  optimizer.step([&] {
    auto loss = model(torch::ones({1, 1})).sum();
    loss.backward();
    return loss;
  });
  CHECK(seconds_of(*timer) == Seconds{0, 0, 1, 1, 1 + 10 + 1, 1 + 1 + 1});
}

TEST_CASE("an optimizer that the program makes by itself is rest") {
  run_once({.workers = 1}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
    torch::optim::SGD own{model->parameters(), 0.1};
    auto prepared = ctx.prepare_optimizer<torch::optim::SGD>(model, {0.1});
    model(torch::ones({1, 1})).sum().backward();
    own.step();
    CHECK(ctx.step_times().optimizer_s == 0);
    prepared.step();
    CHECK(ctx.step_times().optimizer_s > 0);
  });
}

TEST_CASE("each second between two changes of phase is that phase's, where nobody averages gradients") {
  Timed timed;
  raytrain::detail::time_backwards(*timed.model, timed.timer);
  for (auto const& batch : timed.shard.batches({.batch_size = 6})) timed.backward(batch);
  // batches(), x and y; behind x and y; before batches(), behind it, behind the backward and behind the range.
  CHECK(seconds_of(*timed.timer) == Seconds{1 + 1 + 1, 1 + 1, 1, 0, 0, 1 + 1 + 1 + 1});
}

TEST_CASE("averaging is the exchange, and what comes behind it is rest") {
  Timed timed;
  LocalCollective collective{std::make_shared<LocalGroup>(WorldSize{1}), Rank{0}};
  raytrain::detail::GradientAverager const averager{*timed.model,
                                                    1,
                                                    {.collective = collective,
                                                     .worker_step = std::make_shared<raytrain::detail::WorkerStep>(),
                                                     .timer = timed.timer,
                                                     .warn = [](std::string const&) {}}};
  auto const batches = timed.shard.batches({.batch_size = 3});
  timed.timer->restart();
  for (auto const& batch : batches) timed.backward(batch);
  CHECK(seconds_of(*timed.timer) == Seconds{2 * 2, 2 * 2, 2, 2, 0, 1 + 2 + 1});
}

TEST_CASE("two models in one backward are one backward, and two exchanges") {
  Timed timed;
  torch::nn::Linear other{1, 1};
  LocalCollective collective{std::make_shared<LocalGroup>(WorldSize{1}), Rank{0}};
  auto const averager_of = [&](torch::nn::Linear const& model, std::uint16_t number) {
    return std::make_unique<raytrain::detail::GradientAverager>(
        *model, number,
        raytrain::detail::GradientAverager::Worker{.collective = collective,
                                                   .worker_step = std::make_shared<raytrain::detail::WorkerStep>(),
                                                   .timer = timed.timer,
                                                   .warn = [](std::string const&) {}});
  };
  auto const first = averager_of(timed.model, 1);
  auto const second = averager_of(other, 2);
  timed.timer->restart();
  other(timed.model(torch::ones({2, 1}))).sum().backward();
  CHECK(seconds_of(*timed.timer) == Seconds{0, 0, 1, 2, 0, 1 + 1 + 1});
}

TEST_CASE("what an evaluation takes is forward in a loop over batches, and rest by their numbers, but for the data") {
  Timed timed;
  auto const batches = timed.shard.batches({.batch_size = 3});
  timed.timer->restart();
  for (auto const& batch : batches) (void)timed.model(batch["x"]);
  CHECK(seconds_of(*timed.timer) == Seconds{2, 2, 0, 0, 0, 1 + 1});
  timed.timer->restart();
  for (std::size_t i = 0; i < batches.size(); ++i) (void)timed.model(batches[i]["x"]);
  CHECK(seconds_of(*timed.timer) == Seconds{2, 0, 0, 0, 0, 1 + 1 + 1});
  CHECK(timed.timer->times().samples_per_s == 0);
}

TEST_CASE("samples count once a backward follows them, and once, and none of what is only looked at or is padding") {
  Timed timed;
  raytrain::detail::time_backwards(*timed.model, timed.timer);
  auto const batches = timed.shard.batches({.batch_size = 4});  // of 4 and 2
  auto const samples = [&] {
    auto const times = timed.timer->times();
    return times.samples_per_s * sum_of(times);
  };
  timed.timer->restart();
  for (auto const& batch : batches) {
    if (batch.size() == 4) continue;
    timed.backward(batch);
    timed.backward(batch);
  }
  CHECK(samples() == doctest::Approx(2));
  timed.timer->restart();
  CHECK(samples() == 0);

  Timed sharded{{.world_size = WorldSize{2}, .virtual_shards = 3}};
  raytrain::detail::time_backwards(*sharded.model, sharded.timer);
  DatasetShard second{data_of(6), {.rank = Rank{1}, .world_size = WorldSize{2}, .virtual_shards = 3}};
  TorchShard shard{second, {.timer = sharded.timer}};
  sharded.timer->restart();
  for (auto const& batch : shard.batches({.batch_size = 2})) sharded.backward(batch);  // one of 2, and padding
  auto const times = sharded.timer->times();
  CHECK(times.samples_per_s * sum_of(times) == doctest::Approx(2));
}

TEST_CASE("batches and backwards of another thread change nothing") {
  Timed timed;
  raytrain::detail::time_backwards(*timed.model, timed.timer);
  timed.timer->restart();
  std::thread{[&] {
    for (auto const& batch : timed.shard.batches({.batch_size = 6})) timed.backward(batch);
  }}.join();
  CHECK(seconds_of(*timed.timer) == Seconds{0, 0, 0, 0, 0, 1});
}

TEST_CASE("a forward is one also where the next batch is asked for before this one is used") {
  Timed timed;
  raytrain::detail::time_backwards(*timed.model, timed.timer);
  auto const batches = timed.shard.batches({.batch_size = 3});
  timed.timer->restart();
  auto at = batches.begin();
  auto const batch = *at;
  ++at;
  timed.backward(batch);
  CHECK(seconds_of(*timed.timer) == Seconds{1 + 2, 1 + 2, 1, 0, 0, 1 + 1});
}

TEST_CASE("what a function makes of batches is data, as is the wait for it") {
  Timed timed;
  auto const slow = [&](TorchBatch const& batch) {
    auto x = batch["x"];
    for (int reading = 0; reading < 10; ++reading) (void)timed.clock.now();
    return x;
  };
  for (auto const& x : timed.shard.batches({.batch_size = 3}).map(slow, {.threads = 0})) CHECK(x.size(0) == 3);
  CHECK(timed.timer->times().data_s >= 20);
}

TEST_CASE("a program that takes no columns spends its time on the forward") {
  Timed timed;
  auto const batches = timed.shard.batches({.batch_size = 3});
  timed.timer->restart();
  for (auto const& batch : batches) CHECK(batch.rows().size() == 3);
  CHECK(seconds_of(*timed.timer) == Seconds{0, 2, 0, 0, 0, 1 + 1});
}

TEST_CASE("a model may go on with other things when its training is over") {
  torch::nn::Linear model{1, 1};
  run_once({.workers = 1}, [&](TorchContext& ctx) { (void)ctx.prepare_model(model); });
  model(torch::ones({1, 1})).sum().backward();
  CHECK(model->weight.grad().defined());
}

TEST_CASE("a worker's steps have all parts, alone and among others, in windows and with virtual shards") {
  for (auto const& times : times_of_run(1)) {
    CHECK(times.samples_per_s > 0);
    CHECK(times.data_s > 0);
    CHECK(times.forward_s > 0);
    CHECK(times.backward_s > 0);
    CHECK(times.exchange_s == 0);
    CHECK(times.rest_s > 0);
  }
  for (auto const& runs : {times_of_run(2), times_of_run(2, 4), times_of_run(1, 2), times_of_run(1, 0, 4)}) {
    for (auto const& times : runs) {
      CHECK(times.samples_per_s > 0);
      CHECK(times.backward_s > 0);
      CHECK(times.exchange_s > 0);
    }
  }
}

TEST_CASE("what a report takes is in the step times of the next one") {
  run_once({.workers = 1}, [](TorchContext& ctx) {
    ctx.report(SlowReport{});
    CHECK(sum_of(ctx.step_times()) >= 0.05);
  });
}

TEST_CASE("parameters that workers average, and give each other after a step, are exchange as gradients are") {
  run_once({}, [](TorchContext& ctx) {
    auto const local = ctx.prepare_local_model([] { return torch::nn::Linear{1, 1}; });
    auto const model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
    auto optimizer = ctx.prepare_optimizer<torch::optim::SGD>(model, {0.1});
    ctx.report(Epoch{0, 0.5});
    CHECK(ctx.step_times().exchange_s == 0);
    ctx.average_parameters(local);
    auto const averaging = ctx.step_times().exchange_s;
    CHECK(averaging > 0);
    optimizer.step();
    auto const stepping = ctx.step_times().exchange_s;
    CHECK(stepping > averaging);
    (void)ctx.average(0.5);
    CHECK(ctx.step_times().exchange_s > stepping);
  });
}

TEST_CASE("the times of a report begin with the report before") {
  auto const times = times_of_run(2);  // which compares each with the time since the report before
  CHECK(sum_of(times[1]) > 0);
}

TEST_CASE("a model that is prepared twice alone is one model, whose samples count once") {
  double samples = 0;
  run_once({.workers = 1, .datasets = {{"train", data_of(8)}}}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model(ctx.prepare_model(torch::nn::Linear{1, 1}));
    for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 8})) {
      torch::mse_loss(model(batch["x"]), batch["y"]).backward();
    }
    auto const times = ctx.step_times();
    samples = times.samples_per_s * sum_of(times);
  });
  CHECK(samples == doctest::Approx(8));
}

namespace {

struct Habits {
  int epoch = 0;
  double loss = 0;  // of all samples
  raytrain::StepTimes times;
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(loss), CEREAL_NVP(times)); }
};

void train(raytrain::TorchContext& ctx) {
  auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
  torch::optim::SGD optimizer{model->parameters(), 0.05};
  auto shard = ctx.dataset_shard("train");
  for (int epoch = ctx.restore(shard, model, optimizer); epoch < 2; ++epoch) {
    double loss_sum = 0;
    std::int64_t samples = 0;
    for (auto const& batch : shard.batches({.global_batch_size = 12, .epoch = epoch})) {  // 6 of each of 2 workers
      optimizer.zero_grad();
      auto const loss = torch::mse_loss(model(batch["x"]), batch["y"]);
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>() * static_cast<double>(batch.size());
      samples += batch.size();
    }
    auto const times = ctx.step_times();
    auto const loss = ctx.average(loss_sum / static_cast<double>(samples), samples);  // over those of all workers
    ctx.print("epoch {}: loss {:.4f}, {:.0f} samples/s of each worker", epoch, loss, times.samples_per_s);
    ctx.report(Habits{epoch, loss, times}, raytrain::save(model, optimizer));
  }
}

auto line_with_noise(std::size_t rows) -> Dataset {
  std::vector<float> x(rows), y(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    x[i] = static_cast<float>(i % 7) / 7;
    y[i] = 2 * x[i] + static_cast<float>(i % 5) / 10;
  }
  return Dataset::from_columns({{"x", x, {1}}, {"y", y, {1}}});
}

/// The loss of each epoch with so many workers.
auto losses_with(raytrain::WorkerCount workers) -> std::vector<double> {
  struct Lines : raytrain::Callback {
    auto on_print(std::string_view line) -> bool override {
      all.emplace_back(line);
      return true;
    }
    std::vector<std::string> all;
  };
  TemporaryFolder const folder;
  auto const lines = std::make_shared<Lines>();
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      train,
      {.scaling = {.num_workers = workers},
       .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
       .datasets = {{"train", line_with_noise(48)}},
       .callbacks = {lines}}};
  auto const result = trainer.fit();
  std::vector<double> losses;
  for (auto const& report : result.history) losses.push_back(*report.metrics.number("loss"));
  REQUIRE(losses.size() == 2);
  CHECK(lines->all.size() == 2);
  CHECK(lines->all[1].starts_with("epoch 1: loss "));
  return losses;
}

}  // namespace

TEST_CASE("with a global batch and means over all samples the number of workers changes a loss by rounding alone") {
  auto const alone = losses_with(1);
  CHECK(alone[1] < 0.9 * alone[0]);
  for (auto const workers : {2, 3}) {
    auto const losses = losses_with(workers);
    for (std::size_t i = 0; i < alone.size(); ++i) CHECK(losses[i] == doctest::Approx(alone[i]).epsilon(1e-5));
  }
}

TEST_CASE(
    "with report_step_times each report has rank 0's times, but for names that it has already, and no other does") {
  for (bool const is_asked_for : {true, false}) {
    CAPTURE(is_asked_for);
    TemporaryFolder const folder;
    Trainer<TorchBackend> trainer{[](TorchContext& ctx) {
                                    for (int epoch = 0; epoch < 2; ++epoch) ctx.report(Metrics{{"data_s", -1.0}});
                                    ctx.report(Epoch{2, 0.5});
                                  },
                                  {.run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
                                   .backend = {.report_step_times = is_asked_for}}};
    auto const result = trainer.fit();
    auto const names = is_asked_for ? ", samples_per_s, forward_s, backward_s, exchange_s, optimizer_s, rest_s" : "";
    REQUIRE(result.history.size() == 3);
    CHECK(result.history[1].metrics.names() == std::string{"data_s"} + names);
    CHECK(result.history[1].metrics.number("data_s") == -1);
    CHECK(result.history[2].metrics.contains("data_s") == is_asked_for);
    CHECK(result.history[2].metrics.contains("loss"));
    if (is_asked_for) CHECK(*result.history[2].metrics.number("rest_s") > 0);
  }
}

TEST_CASE("a run goes on with step times in its reports, and without them, however it was begun") {
  TemporaryFolder const folder;
  int epochs = 0;
  for (bool const is_asked_for : {false, true, false}) {
    Trainer<TorchBackend> trainer{[epoch = epochs++](TorchContext& ctx) {
                                    auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
                                    torch::optim::SGD optimizer{model->parameters(), 0.1};
                                    CHECK(ctx.restore(model, optimizer) == epoch);
                                    ctx.report(Epoch{epoch, 0.5}, save(model, optimizer));
                                  },
                                  {.run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
                                   .backend = {.report_step_times = is_asked_for}}};
    auto const result = trainer.fit();
    CHECK(result.history.size() == static_cast<std::size_t>(epochs));
    CHECK(result.metrics.contains("data_s") == is_asked_for);
  }
}
