// SPDX-License-Identifier: Apache-2.0
// Two networks of the same parameters, of which one has a whole optimizer on each rank and the other one a slice of it;
// fails when their bits differ:  mpirun -n 2 torch_ranks_program sharded_optimizer STORAGE
#include <torch/torch.h>

#include <stdexcept>
#include <string>

#include <raytrain/backend/torch.hpp>

#include "torch_ranks_program.hpp"
#include "train_on_ranks.hpp"

namespace sharded_optimizer {

namespace {

void train(raytrain::TorchContext& ctx) {
  auto const make = [] {
    torch::manual_seed(1);
    return torch::nn::Linear{45, 7};
  };
  auto with_whole = ctx.prepare_model(make);
  auto with_slice = ctx.prepare_model(make);
  auto const options = torch::optim::AdamWOptions{0.01}.amsgrad(true);
  torch::optim::AdamW whole{with_whole->parameters(), options};
  auto slice = ctx.prepare_optimizer<torch::optim::AdamW>(with_slice, options);
  for (int step = 0; step < 5; ++step) {
    whole.zero_grad();
    slice.zero_grad();
    auto const x = torch::rand({3, 45}, ctx.generator());
    with_whole(x).square().sum().backward();
    with_slice(x).square().sum().backward();
    whole.step();
    slice.step();
    if (!torch::equal(with_whole->weight, with_slice->weight) || !torch::equal(with_whole->bias, with_slice->bias)) {
      throw std::runtime_error{"the parameters differ after step " + std::to_string(step)};
    }
  }
}

}  // namespace

auto run(int argc, char** argv) -> int { return train_on_ranks(argc, argv, train); }

}  // namespace sharded_optimizer
