// SPDX-License-Identifier: Apache-2.0
// Steps of the smallest model, that of examples/linear_regression, within fit() and written by hand with plain
// LibTorch, in turns on the same threads:  step_cost WORKERS EPOCHS TURNS
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/trainer.hpp>

namespace {

constexpr std::int64_t samples = 1024;
constexpr std::int64_t batch_size = 32;

struct Options {
  int workers = 0;
  int epochs = 0;  ///< Of a turn.
  int turns = 0;
};

/// y = a x + b, and the lines of a training loop that are the same on both sides.
class Line {
 public:
  explicit Line(torch::nn::Linear model) : model_{std::move(model)} {}

  /// `average`: what is done to the gradients of the model.
  template <class Average>
  void step(torch::Tensor const& x, torch::Tensor const& y, Average const& average) {
    optimizer_.zero_grad();
    auto const loss = torch::mse_loss(model_(x), y);
    loss.backward();
    average(model_);
    optimizer_.step();
    loss_ = loss.item<double>();
  }

  void check() const {
    auto const a = model_->weight.item<double>();
    auto const b = model_->bias.item<double>();
    if (!(std::abs(a - 2) < 0.01 && std::abs(b - 1) < 0.01 && loss_ < 1e-4)) {
      throw std::runtime_error{"y = 2 x + 1 was not found, but " + std::to_string(a) + " x + " + std::to_string(b)};
    }
  }

 private:
  torch::nn::Linear model_;
  torch::optim::SGD optimizer_{model_->parameters(), 0.3};
  double loss_ = 0;
};

/// The samples of one worker, as a program without raytrain holds and shuffles them.
class PlainData {
 public:
  PlainData(std::int64_t rank, std::int64_t workers)
      : x_{torch::arange(rank, samples, workers, torch::kFloat).div_(samples).unsqueeze(1)}, y_{2 * x_ + 1} {}

  template <class Step>
  void for_each_batch(Step const& step) {
    auto const order = torch::randperm(x_.size(0), generator_);
    for (std::int64_t at = 0; at + batch_size <= order.size(0); at += batch_size) {
      auto const rows = order.narrow(0, at, batch_size);
      step(x_.index_select(0, rows), y_.index_select(0, rows));
    }
  }

 private:
  torch::Tensor x_;
  torch::Tensor y_;
  torch::Generator generator_ = torch::make_generator<torch::CPUGeneratorImpl>(1);
};

/// Of the calling thread. Waiting for another worker counts as far as it spins.
auto cpu_us() -> double {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

/// Of a side, CPU time of a step in each turn.
struct Side {
  std::string name;
  std::function<void()> run_epoch;
  std::vector<double> turns_us{};
};

/// Each side takes the steps of some epochs in a turn. Their times become the mean of all workers'.
void measure(raytrain::TorchContext& ctx, Options const& options, std::vector<Side>& sides) {
  auto const steps = static_cast<double>(options.epochs * (samples / options.workers / batch_size));
  // The first turn is not measured.
  for (std::size_t turn = 0; turn <= static_cast<std::size_t>(options.turns); ++turn) {
    // Who begins changes, so that a machine that slows down is not one side's.
    for (std::size_t i = 0; i < sides.size(); ++i) {
      auto& side = sides[(turn + i) % sides.size()];
      ctx.collective().barrier();
      auto const begin = cpu_us();
      for (int epoch = 0; epoch < options.epochs; ++epoch) side.run_epoch();
      if (turn > 0) side.turns_us.push_back((cpu_us() - begin) / steps);
    }
  }
  for (auto& side : sides) ctx.collective().all_reduce(side.turns_us, raytrain::ReduceOp::average);
}

/// Within fit(), by hand, and by hand with gradients that are averaged.
auto train(raytrain::TorchContext& ctx, Options const& options) -> std::vector<Side> {
  // The same one on each worker.
  auto const make_model = [] {
    torch::nn::Linear model{1, 1};
    torch::nn::init::zeros_(model->weight);
    torch::nn::init::zeros_(model->bias);
    return model;
  };
  Line prepared{ctx.prepare_model(make_model)};
  Line alone{make_model()};
  Line averaged{make_model()};
  auto const average = [&](torch::nn::Linear& model) {
    auto* const a = model->weight.grad().data_ptr<float>();
    auto* const b = model->bias.grad().data_ptr<float>();
    std::array<float, 2> gradients{*a, *b};
    ctx.collective().all_reduce(gradients, raytrain::ReduceOp::average);
    std::tie(*a, *b) = std::tie(gradients[0], gradients[1]);
  };
  auto const nothing = [](torch::nn::Linear&) {};

  // With batches that are drawn from a dataset, and with one and the same.
  auto shard = ctx.dataset_shard("train");
  PlainData data{ctx.world_rank().value, options.workers};
  auto const x = torch::rand({batch_size, 1}, ctx.generator());
  auto const y = 2 * x + 1;
  auto const drawn = [&](Line& line, auto const& then) {
    return [&] { data.for_each_batch([&](auto const& xs, auto const& ys) { line.step(xs, ys, then); }); };
  };
  auto const same = [&](Line& line, auto const& then) {
    return [&] {
      for (std::int64_t i = 0; i < samples / options.workers / batch_size; ++i) line.step(x, y, then);
    };
  };
  auto const from_shard = [&, epoch = 0]() mutable {
    for (auto batch : shard.batches({.batch_size = batch_size, .epoch = epoch++})) {
      prepared.step(batch["x"], batch["y"], nothing);
    }
  };
  std::vector<Side> sides{{"drawn_fit", from_shard},
                          {"drawn_by_hand", drawn(alone, nothing)},
                          {"drawn_averaged", drawn(averaged, average)},
                          {"same_fit", same(prepared, nothing)},
                          {"same_by_hand", same(alone, nothing)},
                          {"same_averaged", same(averaged, average)}};
  measure(ctx, options, sides);
  for (auto const* line : {&prepared, &alone, &averaged}) line->check();
  for (auto& side : sides) side.run_epoch = nullptr;  // what it refers to ends here
  return sides;
}

/// What times of steps cost: CPU time of a step's calls of their timer, for a batch of two columns, its backward and
/// its exchange, in each of so many turns.
auto step_times(int turns) -> Side {
  using raytrain::detail::InPhase;
  using Phase = raytrain::detail::StepTimer::Phase;
  constexpr int steps = 100'000;
  auto const timer = raytrain::detail::make_step_timer();
  Side side{"step_times", {}};
  for (int turn = 0; turn < turns; ++turn) {
    auto const begin = cpu_us();
    for (int step = 0; step < steps; ++step) {
      timer->ask();
      timer->hand_out(batch_size);
      for (int column = 0; column < 2; ++column) InPhase const gets_data{timer.get(), Phase::data};
      (void)timer->begin_backward();
      InPhase const exchanges{timer.get(), Phase::exchange, Phase::rest};
      InPhase const operates{timer.get(), Phase::exchange};
    }
    side.turns_us.push_back((cpu_us() - begin) / steps);
  }
  return side;
}

void print(std::vector<Side> const& sides) {
  auto const* separator = "{";
  for (auto const& [name, run_epoch, turns_us] : sides) {
    fmt::print("{}\"{}\": [{:.2f}]", std::exchange(separator, ", "), name, fmt::join(turns_us, ", "));
  }
  fmt::print("}}\n");
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 4) throw std::invalid_argument{"usage: step_cost WORKERS EPOCHS TURNS"};
  Options const options{std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3])};
  std::vector<float> x(samples);
  std::vector<float> y(samples);
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = 2 * (x[i] = static_cast<float>(i) / samples) + 1;
  std::vector<Side> sides;
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      [&](raytrain::TorchContext& ctx) {
        auto mine = train(ctx, options);
        if (ctx.world_rank() == raytrain::Rank{0}) sides = std::move(mine);
      },
      {.scaling = {.num_workers = options.workers, .resources_per_worker = {.cpus = 1}},
       .run = {.name = "step_cost", .storage_path = "runs", .resume = raytrain::Resume::fresh, .seed = 1},
       .datasets = {{"train", raytrain::Dataset::from_columns({{"x", x, {1}}, {"y", y, {1}}})}}}};
  if (trainer.fit().state != raytrain::RunState::finished) throw std::runtime_error{"the training was stopped"};
  sides.push_back(step_times(options.turns));
  print(sides);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "step_cost: %s\n", error.what());
  return 1;
}
