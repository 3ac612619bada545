// SPDX-License-Identifier: Apache-2.0
// Training on one GPU: raytrain against a plain LibTorch loop in turns, workers that share the GPU, batches that come
// from the host, and the exchange of gradients. ddp_twin.py measures the same two networks in Python.
#include <torch/cuda.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "../../examples/fashion_mnist/networks.hpp"
#include "../../examples/language_model/network.hpp"

namespace {

using raytrain::GpuExchange;
using raytrain::TorchContext;

constexpr int skipped = 77;
constexpr int warm_up = 20;  // steps
constexpr int block = 50;    // steps that are timed together
constexpr int blocks = 5;    // of which the median counts

auto on_gpu(torch::ScalarType type = torch::kFloat) -> torch::TensorOptions {
  return torch::TensorOptions{}.device(torch::kCUDA, 0).dtype(type);
}

void print(std::string const& name, double value, char const* unit) {
  fmt::print("{}\t{:.5g}\t{}\n", name, value, unit);
  std::fflush(stdout);
}

auto median(std::vector<double> values) -> double {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

auto now_s() -> double {
  return std::chrono::duration<double>{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

/// Until the GPU has done all of it.
template <class F>
auto seconds(F const& work) -> double {
  torch::cuda::synchronize();
  auto const begin = now_s();
  work();
  torch::cuda::synchronize();
  return now_s() - begin;
}

template <class F>
void repeat(int times, F const& work) {
  for (int i = 0; i < times; ++i) work();
}

struct Figures {
  std::vector<double> steps_per_s{};
  std::vector<double> host_s{};  ///< Until a step's calls have returned.

  void measure(std::function<void()> const& step) {
    repeat(warm_up, step);
    // Each alone: behind many others a call waits until the GPU's queue has room.
    repeat(10, [&] {
      torch::cuda::synchronize();
      auto const begin = now_s();
      step();
      host_s.push_back(now_s() - begin);
    });
    steps_per_s.push_back(block / seconds([&] { repeat(block, step); }));
  }

  void print(std::string const& name) const {
    ::print(name, median(steps_per_s), "steps/s");
    ::print(name + " host time of a step", median(host_s) * 1e3, "ms");
  }
};

/// Trains in threads that share the GPU.
void on_workers(int workers, GpuExchange exchange, std::function<void(TorchContext&)> const& train,
                raytrain::Datasets datasets = {}) {
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      train,
      {.scaling = {.num_workers = workers, .resources_per_worker = {.gpus = 1.0 / workers}, .use_gpu = true},
       .run = {.name = "gpu", .storage_path = "runs", .resume = raytrain::Resume::fresh, .seed = 1},
       .datasets = std::move(datasets),
       .backend = {.gpu_exchange = exchange}}};
  if (trainer.fit().state != raytrain::RunState::finished) throw std::runtime_error{"the training was stopped"};
}

/// resnet18 in float.
struct ImageJob {
  static constexpr auto precision = raytrain::Precision::fp32;
  static auto model() { return std::make_shared<ResNet18>(3); }
  static auto optimizer(torch::nn::Module const& model) {
    return torch::optim::SGD{model.parameters(), torch::optim::SGDOptions{0.01}.momentum(0.9)};
  }
  [[nodiscard]] auto loss(ResNet18& model) const { return torch::nll_loss(model.forward(images), labels); }

  torch::Tensor images = torch::randn({128, 3, 32, 32}, on_gpu());
  torch::Tensor labels = torch::randint(10, {128}, on_gpu(torch::kLong));
};

/// The small transformer of the example, with matrix products in bfloat16.
struct TextJob {
  static constexpr auto precision = raytrain::Precision::bf16;
  static auto model() { return std::make_shared<LanguageModel>(); }
  static auto optimizer(torch::nn::Module const& model) { return torch::optim::AdamW{model.parameters(), 1e-3}; }
  [[nodiscard]] auto loss(LanguageModel& model) const {
    auto const logits = model.forward(text.slice(1, 0, -1));
    return torch::nn::functional::cross_entropy(logits.flatten(0, 1), text.slice(1, 1).flatten());
  }

  torch::Tensor text = torch::randint(256, {64, ModelShape{}.context + 1}, on_gpu(torch::kLong));
};

template <class Job, class M>
void train(Job const& job, M& model, Figures& figures) {
  auto optimizer = Job::optimizer(model);
  figures.measure([&] {
    auto const loss = [&] {
      raytrain::Autocast const autocast{Job::precision, torch::kCUDA};
      return job.loss(model);
    }();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  });
}

/// A new training for each block: one of the main thread's and LibTorch's own, then one of a worker's.
template <class Job>
void against_plain_loop(std::string const& name) {
  Job const job;
  Figures plain;
  Figures with_raytrain;
  repeat(blocks, [&] {
    auto const model = Job::model();
    model->to(torch::Device{torch::kCUDA, 0});
    train(job, *model, plain);
    on_workers(1, GpuExchange::automatic,
               [&](TorchContext& ctx) { train(job, *ctx.prepare_model(Job::model), with_raytrain); });
  });
  plain.print(name + " plain LibTorch");
  with_raytrain.print(name + " raytrain");
  print(name + " raytrain / plain", median(with_raytrain.steps_per_s) / median(plain.steps_per_s), "times");
}

/// Seconds of one of `repeats` calls on every worker, and until the GPU has done those of all; the same on each.
template <class F>
auto seconds_together(TorchContext& ctx, int repeats, F const& work) -> double {
  torch::cuda::synchronize();
  ctx.collective().barrier();
  auto const begin = now_s();
  repeat(repeats, work);
  torch::cuda::synchronize();
  ctx.collective().barrier();
  return ctx.average((now_s() - begin) / repeats);
}

/// Samples a second of all workers.
auto mlp_rate(int workers, GpuExchange exchange) -> double {
  constexpr std::int64_t batch = 128;
  double result = 0;
  on_workers(workers, exchange, [&](TorchContext& ctx) {
    auto const model = ctx.prepare_model([] { return std::make_shared<Mlp>(); });
    torch::optim::SGD optimizer{model->parameters(), torch::optim::SGDOptions{0.01}.momentum(0.9)};
    auto const images = torch::randn({batch, 1, 28, 28}, on_gpu());
    auto const labels = torch::randint(10, {batch}, on_gpu(torch::kLong));
    auto const step = [&] {
      auto const loss = torch::nll_loss(model->forward(images), labels);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    };
    repeat(warm_up, step);
    std::vector<double> times;
    repeat(blocks, [&] { times.push_back(seconds_together(ctx, 2 * block, step)); });
    if (ctx.world_rank() == raytrain::Rank{0}) result = workers * batch / median(times);
  });
  return result;
}

void sharing_workers() {
  for (auto const& [exchange, name] : {std::pair{GpuExchange::automatic, "automatic"}, {GpuExchange::cpu, "host"}}) {
    double of_one = 0;
    for (auto const workers : {1, 2, 4}) {
      auto const rate = mlp_rate(workers, exchange);
      if (workers == 1) of_one = rate;
      auto const row = fmt::format("mlp {} workers, exchange {}", workers, name);
      print(row, rate, "samples/s");
      print(row + ", against 1", rate / of_one, "times");
    }
  }
}

void batches_from_host() {
  constexpr std::int64_t batch = 256;
  constexpr std::size_t pixels = 3 * 32 * 32;
  constexpr std::size_t rows = block * batch;  // an epoch is a block
  std::vector<std::uint8_t> images(rows * pixels);
  std::mt19937 generator{1};
  std::ranges::generate(images, [&] { return static_cast<std::uint8_t>(generator()); });
  std::vector<std::uint8_t> labels(rows);
  std::ranges::generate(labels, [&] { return static_cast<std::uint8_t>(generator() % 10); });
  auto const data = raytrain::Dataset::from_columns({{"image", std::move(images), {3, 32, 32}}, {"label", labels}});
  std::vector<double> from_host;
  std::vector<double> held;
  std::vector<double> copies;
  auto const measure = [&](TorchContext& ctx) {
    auto const model = ctx.prepare_model(ImageJob::model);
    auto optimizer = ImageJob::optimizer(*model);
    auto shard = ctx.dataset_shard("train");
    auto const step = [&](torch::Tensor const& image, torch::Tensor const& label) {
      auto const loss = torch::nll_loss(model->forward(image.to(torch::kFloat).div_(255)), label.to(torch::kLong));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    };
    auto const image = torch::randint(256, {batch, 3, 32, 32}, on_gpu(torch::kByte));
    auto const label = torch::randint(10, {batch}, on_gpu(torch::kByte));
    repeat(warm_up, [&] { step(image, label); });
    std::int64_t epoch = 0;
    auto const each_batch = [&](auto const& use) {
      for (auto const& taken : shard.batches({.batch_size = batch, .epoch = epoch++})) {
        use(taken["image"], taken["label"]);
      }
    };
    repeat(3, [&] {
      from_host.push_back(seconds([&] { each_batch(step); }));
      held.push_back(seconds([&] { repeat(block, [&] { step(image, label); }); }));
      copies.push_back(seconds([&] { each_batch([](auto const&, auto const&) {}); }));
    });
  };
  on_workers(1, GpuExchange::automatic, measure, {{"train", data}});
  print("resnet18 batches from the host", block / median(from_host), "steps/s");
  print("resnet18 batches on the GPU", block / median(held), "steps/s");
  print("resnet18 from the host / on the GPU", median(held) / median(from_host), "times");
  print("batches from the host, without steps", block / median(copies), "batches/s");
  print("copies that steps hide", 100 * (1 - (median(from_host) - median(held)) / median(copies)), "%");
}

/// One parameter, whose gradient is one operation.
struct Flat : torch::nn::Module {
  explicit Flat(std::int64_t count) { values = register_parameter("values", torch::zeros({count}, on_gpu())); }
  torch::Tensor values;
};

/// Seconds by which a backward of all workers takes longer when it averages so many parameters.
auto exchange_seconds(int workers, std::int64_t count) -> double {
  double result = 0;
  on_workers(workers, GpuExchange::automatic, [&](TorchContext& ctx) {
    auto const averaged = ctx.prepare_model([&] { return std::make_shared<Flat>(count); });
    auto const alone = std::make_shared<Flat>(count);
    auto const factors = torch::ones({count}, on_gpu());
    auto const backward = [&](Flat& model) {
      model.zero_grad();
      torch::dot(model.values, factors).backward();
    };
    std::vector<double> with;
    std::vector<double> without;
    repeat(1 + blocks, [&] {
      with.push_back(seconds_together(ctx, 20, [&] { backward(*averaged); }));
      without.push_back(seconds_together(ctx, 20, [&] { backward(*alone); }));
    });
    if (ctx.world_rank() == raytrain::Rank{0}) result = median(with) - median(without);
  });
  return result;
}

void gradient_exchange() {
  for (std::int64_t const mib : {1, 64, 512}) {
    auto const bytes = static_cast<double>(mib << 20U);
    auto const count = (mib << 20U) / static_cast<std::int64_t>(sizeof(float));
    auto const from = torch::ones({count}, on_gpu());
    auto to = torch::empty_like(from);
    repeat(warm_up, [&] { to.copy_(from); });
    auto const copy_s = seconds([&] { repeat(block, [&] { to.copy_(from); }); }) / block;
    print(fmt::format("copy {} MiB", mib), 2 * bytes / copy_s / 1e9, "GB/s");
    for (auto const workers : {2, 4}) {
      auto const took_s = exchange_seconds(workers, count);
      auto const bound_s = (5 * workers - 3) * copy_s / 2;  // what SharedDeviceArrays reads and writes
      auto const row = fmt::format("exchange {} MiB, {} workers", mib, workers);
      print(row, took_s * 1e3, "ms");
      print(row + ", of the copy's speed", 100 * bound_s / took_s, "%");
    }
  }
}

}  // namespace

auto main() -> int try {
  if (!torch::cuda::is_available()) {
    fmt::print("skipped: no GPU\n");
    return skipped;
  }
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setAllowTF32CuBLAS(false);
  torch::manual_seed(1);
  against_plain_loop<ImageJob>("resnet18");
  against_plain_loop<TextJob>("language model");
  sharing_workers();
  batches_from_host();
  gradient_exchange();
  return 0;
} catch (std::exception const& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
