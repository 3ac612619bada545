// SPDX-License-Identifier: Apache-2.0
// Two steps of a net that normalises over the batches of all ranks, against one that has the joined batch; fails when
// they differ:  mpirun -n 2 torch_ranks_program sync_batch_norm STORAGE
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <raytrain/backend/torch.hpp>

#include "torch_ranks_program.hpp"
#include "train_on_ranks.hpp"

namespace sync_batch_norm {

namespace {

struct NetImpl : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d{torch::nn::Conv2dOptions{3, 64, 3}.bias(false)});
  raytrain::SyncBatchNorm norm = register_module("norm", raytrain::SyncBatchNorm{64});
  auto forward(torch::Tensor const& x) -> torch::Tensor { return norm(conv(x)); }
};
TORCH_MODULE(Net);

void expect_near(torch::Tensor const& got, torch::Tensor const& expected, std::string const& what) {
  if (torch::allclose(got, expected, 1e-6, 1e-9)) return;
  throw std::runtime_error{what + " differs by " + std::to_string((got - expected).abs().max().item<double>())};
}

void train(raytrain::TorchContext& ctx) {
  Net joined;  // not prepared: it has all of the batch, on each rank
  auto net = ctx.prepare_model([] { return Net{}; });
  joined->to(torch::kDouble);
  net->to(torch::kDouble);
  net = ctx.prepare_model(net);
  for (std::size_t i = 0; i < net->parameters().size(); ++i)
    joined->parameters()[i].set_data(net->parameters()[i].clone());
  for (int step = 0; step < 2; ++step) {
    torch::manual_seed(static_cast<std::uint64_t>(step));
    std::int64_t const ranks = ctx.world_size().value;
    auto const x = torch::rand({ranks * (ranks + 1) / 2, 3, 6, 6}, torch::kDouble);  // rank r has r + 1 rows of it
    std::int64_t const rank = ctx.world_rank().value;
    auto const own = [&](torch::Tensor const& all) { return all.narrow(0, rank * (rank + 1) / 2, rank + 1); };
    net->zero_grad();
    joined->zero_grad();
    auto const y = net(own(x));
    auto const expected = joined(x);
    y.pow(3).sum().backward();
    (expected.pow(3).sum() / static_cast<double>(ranks)).backward();
    expect_near(y, own(expected), "the output");
    expect_near(net->conv->weight.grad(), joined->conv->weight.grad(), "a gradient");
    expect_near(net->norm->weight.grad(), joined->norm->weight.grad(), "the gradient of a weight");
    expect_near(net->norm->running_var, joined->norm->running_var, "the running variance");
  }
}

}  // namespace

auto run(int argc, char** argv) -> int { return train_on_ranks(argc, argv, train); }

}  // namespace sync_batch_norm
