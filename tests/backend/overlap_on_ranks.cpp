// SPDX-License-Identifier: Apache-2.0
// Steps of a net whose gradients are exchanged in buckets, of which rank 0 prints a digest of the parameters:
//   mpirun -n 2 torch_ranks_program overlap STORAGE off|on|measured
// Once more with gradients of 16 bits. Fails when ranks have other parameters, and with `on` when a model whose
// backward has failed is not prepared again, and when a rank that ends does not end the others' backwards.
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "torch_ranks_program.hpp"

namespace overlap {

namespace {

struct NetImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear{20, 200});
  torch::nn::Linear second = register_module("second", torch::nn::Linear{200, 200});
  torch::nn::Linear of_one = register_module("of_one", torch::nn::Linear{200, 200});
  torch::nn::Linear last = register_module("last", torch::nn::Linear{200, 1});
  auto forward(torch::Tensor x, raytrain::Rank rank) -> torch::Tensor {
    x = torch::tanh(second(torch::tanh(first(x))));
    return last(rank == raytrain::Rank{1} ? x + of_one(x) : x).pow(2).mean();
  }
};
TORCH_MODULE(Net);

auto loss_of(Net& net, raytrain::TorchContext& ctx, int step) -> torch::Tensor {
  auto generator = at::detail::createCPUGenerator(100 * static_cast<std::uint64_t>(step) + ctx.world_rank().value);
  return net(torch::randn({16, 20}, generator), ctx.world_rank());
}

/// Exchanges gradients in every second step.
void train(raytrain::TorchContext& ctx, raytrain::ModelOptions const& options, int steps) {
  auto net = ctx.prepare_model([] { return Net{}; }, options);
  auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(net, {1e-3});
  for (int step = 0; step < steps; ++step) {
    auto const is_last = ctx.accumulate(2);
    loss_of(net, ctx, step).backward();
    if (!is_last) continue;
    optimizer.step();
    optimizer.zero_grad();
  }
  auto sum = 0.0;
  for (auto const& parameter : net->parameters()) {
    // One by one: the order of LibTorch's sums depends on the number of threads, which differs between hosts.
    std::span const values{parameter.data_ptr<float>(), static_cast<std::size_t>(parameter.numel())};
    for (auto const value : values) sum += static_cast<double>(value) * value;
  }
  if (ctx.max(sum) != ctx.min(sum)) throw std::runtime_error{"the ranks have other parameters"};
  ctx.print("digest {:a}", sum);
}

void end_early(raytrain::TorchContext& ctx) {
  auto net = ctx.prepare_model([] { return Net{}; }, {.bucket_bytes = 1, .overlap = raytrain::Overlap::on});
  loss_of(net, ctx, 0).backward();
  if (ctx.world_rank() != raytrain::Rank{1}) loss_of(net, ctx, 1).backward();
}

/// When the backward fails, other gradients are on their way on rank 1 than on the others.
void prepare_again(raytrain::TorchContext& ctx) {
  raytrain::ModelOptions const options{.bucket_bytes = 1, .overlap = raytrain::Overlap::on};
  auto net = ctx.prepare_model([] { return Net{}; }, options);
  auto const first = net->first->weight;
  auto const hook = first.register_hook([](torch::Tensor const&) { throw std::runtime_error{"on purpose"}; });
  try {
    loss_of(net, ctx, 0).backward();
  } catch (std::runtime_error const&) {
    first.remove_hook(hook);
    net = ctx.prepare_model(net, options);
    return loss_of(net, ctx, 1).backward();
  }
  throw std::logic_error{"the backward has not failed"};
}

auto options_of(std::string const& storage) -> raytrain::TrainerConfig<raytrain::TorchBackend> {
  return {.run = {.name = "run", .storage_path = storage, .handle_signals = false}};
}

void expect_end(std::string const& storage) {
  try {
    raytrain::Trainer<raytrain::TorchBackend>{end_early, options_of(storage)}.fit();
  } catch (raytrain::TrainingFailed const& failed) {
    std::string const text = failed.what();
    if (text.find("rank 1 has ended while rank") != std::string::npos) return;
    throw std::runtime_error{"the error is another one: " + text};
  }
  throw std::runtime_error{"a rank that ends early is no failure"};
}

}  // namespace

auto run(int argc, char** argv) -> int try {
  if (argc != 3) throw std::invalid_argument{"usage: torch_ranks_program overlap STORAGE off|on|measured"};
  auto const overlap = raytrain::overlap_named(argv[2]);
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      [overlap](raytrain::TorchContext& ctx) {
        constexpr int until_chosen = 2 * 40;  // by Overlap::measured
        train(ctx, {.bucket_bytes = 10'000, .overlap = overlap}, until_chosen);
        auto const bf16 = raytrain::compressed(raytrain::Compression::bf16);
        train(ctx, {.exchange = bf16, .bucket_bytes = 10'000, .overlap = overlap}, 30);
      },
      options_of(argv[1])};
  trainer.fit();
  if (overlap == raytrain::Overlap::on) {
    raytrain::Trainer<raytrain::TorchBackend>{prepare_again, options_of(std::string{argv[1]} + "/again")}.fit();
    expect_end(std::string{argv[1]} + "/ends");
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

}  // namespace overlap
