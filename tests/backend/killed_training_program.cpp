// SPDX-License-Identifier: Apache-2.0
// A training of two workers on threads that is killed where one is told, and goes on when it is started again:
//   killed_training_program STORAGE mlp|conv|language STEP PLACE SPINS
// In that step, counted from 1 over all epochs, the process is killed when a worker comes to that place and has counted
// to SPINS there; at "anywhere" a thread of its own counts, while the step goes on. Step 0: never. Says the losses of
// all reports, and what all parameters, buffers and averages hash to.
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <cereal/cereal.hpp>

#include <raytrain/backend/torch.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/trainer.hpp>

#include "../../examples/language_model/network.hpp"
#include "../../examples/language_model/text.hpp"

using namespace raytrain;

namespace {

constexpr int epochs = 3;
constexpr int steps_of_epoch = 20;
constexpr int steps_of_checkpoint = 6;

struct Fault {
  int step = 0;
  std::string place;
  std::uint64_t spins = 0;

  void count_and_kill() const {
    std::atomic<std::uint64_t> count{0};
    while (count < spins) ++count;
    ::kill(::getpid(), SIGKILL);
  }

  void at(int now, std::string_view here) const {
    if (now == step && here == place) count_and_kill();
    if (now == step && here == "forward" && place == "anywhere") {
      std::thread{[fault = *this] { fault.count_and_kill(); }}.detach();
    }
  }
};

/// What a worker sums up in an epoch, its own images alone.
struct Sums {
  int step = 0;
  double loss = 0;
  std::vector<double> of_epochs{};
  void serialize(auto& a) { a(CEREAL_NVP(step), CEREAL_NVP(loss), CEREAL_NVP(of_epochs)); }
};

struct Line {
  int epoch = 0;
  int step = 0;
  double loss = 0;
  double drawn = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(step), CEREAL_NVP(loss), CEREAL_NVP(drawn)); }
};

auto make_network(std::string const& name) -> torch::nn::Sequential {
  if (name == "mlp") {
    return torch::nn::Sequential{torch::nn::Flatten{}, torch::nn::Linear{64, 32}, torch::nn::ReLU{},
                                 torch::nn::Linear{32, 10}};
  }
  return torch::nn::Sequential{torch::nn::Conv2d{torch::nn::Conv2dOptions{1, 4, 3}},
                               torch::nn::BatchNorm2d{4},
                               torch::nn::ReLU{},
                               torch::nn::Dropout2d{0.25},
                               torch::nn::Flatten{},
                               torch::nn::Linear{144, 32},
                               torch::nn::Dropout{0.5},
                               torch::nn::Linear{32, 10}};
}

constexpr std::size_t rows = std::size_t{steps_of_epoch} * 2 * 8;

/// The same ones in each start.
struct RandomBytes {
  auto operator()() -> std::uint32_t { return (state = state * 1664525 + 1013904223) >> 24U; }
  std::uint32_t state = 12345;
};

auto images() -> Dataset {
  std::vector<float> pixels(rows * 64);
  std::vector<std::int64_t> labels(rows);
  for (RandomBytes next; auto& pixel : pixels) pixel = static_cast<float>(next()) / 256;
  for (std::size_t row = 0; row < rows; ++row) labels[row] = static_cast<std::int64_t>(pixels[row * 64 + 9] * 9.9F);
  return Dataset::from_columns({{"image", std::move(pixels), {1, 8, 8}}, {"label", std::move(labels)}});
}

/// A network that learns what images show, one step for each batch.
struct ImageTask {
  static constexpr int accumulated = 1;
  static constexpr double clip = 0;
  static constexpr auto precision = Precision::fp32;

  [[nodiscard]] auto make() const -> torch::nn::Sequential { return make_network(network); }
  static auto data() -> Dataset { return images(); }
  static auto loss_of(torch::nn::Sequential& model, TorchBatch const& batch, at::Generator const& noise)
      -> torch::Tensor {
    auto const x = batch["image"];
    auto const y = model->forward(x + 0.05 * torch::randn(x.sizes(), noise));
    return torch::nn::functional::cross_entropy(y, batch["label"]);
  }

  std::string network;
};

/// The language model of the examples, trained as there, but with a tenth of the bytes hidden at random.
struct TextTask {
  static constexpr ModelShape shape{.context = 16, .width = 16, .heads = 2, .layers = 1};
  static constexpr int accumulated = 2;
  static constexpr double clip = 1;
  static constexpr auto precision = Precision::bf16;

  static auto make() -> std::shared_ptr<LanguageModel> { return std::make_shared<LanguageModel>(shape); }
  static auto data() -> Dataset {
    constexpr std::string_view words = "a network reads text, and learns which byte is next. ";
    constexpr auto all_rows = rows + rows / 9;  // of which each tenth one is no part of the training
    std::string text;
    for (RandomBytes next; text.size() <= all_rows * shape.context;) text += words.substr(next() % words.size());
    text.resize(all_rows * shape.context + 1);
    return rows_of(text, shape.context).train;
  }
  static auto loss_of(std::shared_ptr<LanguageModel>& model, TorchBatch const& batch, at::Generator const& noise)
      -> torch::Tensor {
    auto const text = batch["text"].to(torch::kLong);
    auto const read = text.slice(1, 0, shape.context);
    auto const logits = model->forward(read.masked_fill(torch::rand(read.sizes(), noise) < 0.1, 0));
    return torch::nn::functional::cross_entropy(logits.flatten(0, 1), text.slice(1, 1).flatten());
  }
};

auto hash_of(std::vector<torch::Tensor> const& tensors) -> std::string {
  Bytes all;
  for (auto const& tensor : tensors) {
    auto const flat = tensor.detach().contiguous();
    auto const* const first = static_cast<std::byte const*>(flat.data_ptr());
    all.insert(all.end(), first, first + flat.nbytes());
  }
  return raytrain::detail::xxh3_of(all);
}

template <class Task>
void train(TorchContext& ctx, Task const& task, Fault const& fault) {
  auto model = ctx.prepare_model([&] { return task.make(); });
  auto optimizer = ctx.prepare_optimizer<torch::optim::AdamW>(model, {1e-2});
  CosineWithWarmup schedule{optimizer,
                            {.warmup_steps = 5, .steps = std::int64_t{epochs} * steps_of_epoch / Task::accumulated}};
  GradScaler scaler{Task::precision};
  AveragedModel averaged{model, {.decay = 0.9}};
  EarlyStopping stopping{{.patience = 100}};
  auto noise = at::detail::createCPUGenerator(ctx.world_rank().value);
  auto shard = ctx.dataset_shard("train");
  Sums sums;
  TrainingState state{model, optimizer, schedule, scaler, averaged, stopping, shard, {"noise", noise}, {"sums", sums}};

  // Rank 1 comes to a place when rank 0 may be anywhere before the next exchange.
  auto const place = [&](std::string_view here) {
    if (ctx.world_rank() == Rank{1}) fault.at(sums.step, here);
  };
  auto const report = [&](int epoch, double value) {
    place("report");
    ctx.report(Line{epoch, sums.step, value, torch::rand({1}).item<double>()}, save(state));
    place("reported");
  };
  for (auto epoch = ctx.restore(state); epoch < epochs; ++epoch) {
    for (auto const& batch : shard.batches({.batch_size = 8, .epoch = epoch})) {
      ++sums.step;
      place("forward");
      auto const is_last = ctx.accumulate(Task::accumulated);
      torch::Tensor const loss = [&] {
        auto const autocast = ctx.autocast(Task::precision);
        return task.loss_of(model, batch, noise);
      }();
      place("backward");
      scaler.scale(loss).backward();
      place("optimizer");
      if (is_last) {
        scaler.unscale(optimizer);
        if (Task::clip > 0) torch::nn::utils::clip_grad_norm_(model->parameters(), Task::clip);
        scaler.step(optimizer);
        scaler.update();
        schedule.step();
        averaged.update();
        optimizer.zero_grad();
      }
      sums.loss += loss.item<double>();
      if (sums.step % steps_of_checkpoint == 0) report(epoch, sums.loss);
    }
    place("epoch");
    sums.of_epochs.push_back(std::exchange(sums.loss, 0));
    stopping.step(ctx, sums.of_epochs.back());
    report(epoch, sums.of_epochs.back());
  }
  auto all = model->parameters();
  for (auto const& buffer : model->buffers()) all.push_back(buffer);
  auto const of_model = hash_of(all);
  auto const of_sums = ctx.all_gather(fmt::format("{}", fmt::join(sums.of_epochs, " ")));
  auto const in_place = averaged.put_in_place();
  if (ctx.world_rank() == Rank{0}) {
    fmt::print("model {}\naverage {}\nsums {}\nbest {} {}\n", of_model, hash_of(model->parameters()),
               fmt::join(of_sums, " | "), stopping.best(), stopping.waited());
  }
}

struct KillOnCommit : Callback {
  KillOnCommit(Fault killed, int checkpoints) : fault{std::move(killed)}, number{checkpoints} {}
  void on_checkpoint(Checkpoint const& checkpoint) override {
    if (std::cmp_equal(checkpoint.number().value, number)) fault.count_and_kill();
  }
  Fault fault;
  int number;
};

template <class Task>
void run(std::string const& storage, Task const& task, Fault const& fault) {
  TrainerConfig<TorchBackend> config{
      .scaling = {.num_workers = 2, .resources_per_worker = {.cpus = 1}},
      .run = {.name = "run", .storage_path = storage, .checkpoint = {.num_to_keep = 2}, .handle_signals = false},
      .datasets = {{"train", task.data()}}};
  if (fault.place == "commit") {
    auto const checkpoints = fault.step / steps_of_checkpoint;
    config.callbacks.push_back(std::make_shared<KillOnCommit>(fault, checkpoints));
  }
  auto const result =
      Trainer<TorchBackend>{[&](TorchContext& ctx) { train(ctx, task, fault); }, std::move(config)}.fit();
  fmt::print("losses");
  for (auto const& report : result.history) {
    fmt::print(" {} {}", *report.metrics.number("loss"), *report.metrics.number("drawn"));
  }
  fmt::print("\nstate {}\n", to_string(result.state));
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  std::span const arguments{argv, static_cast<std::size_t>(argc)};
  std::string const network{arguments[2]};
  Fault const fault{.step = std::stoi(arguments[3]), .place = arguments[4], .spins = std::stoull(arguments[5])};
  if (network == "language") {
    run(arguments[1], TextTask{}, fault);
  } else {
    run(arguments[1], ImageTask{network}, fault);
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
