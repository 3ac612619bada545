// SPDX-License-Identifier: Apache-2.0
// Two networks that each worker trains by itself, one of local SGD and one of DiLoCo, up to a step, on from where it
// ended before, on threads or on the ranks of a job:  torch_ranks_program local_training STORAGE STEPS [WORKERS]
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "torch_ranks_program.hpp"

namespace local_training {

namespace {

struct Step {
  int step = 0;
  void serialize(auto& a) { a(CEREAL_NVP(step)); }
};

void train(raytrain::TorchContext& ctx, int const& steps) {
  auto averaged = ctx.prepare_local_model([] { return torch::nn::Linear{45, 7}; });
  torch::optim::Adam adam{averaged->parameters(), 0.01};
  auto model = ctx.prepare_local_model([] { return torch::nn::Linear{45, 7}; });
  torch::optim::AdamW inner{model->parameters(), 0.01};
  raytrain::DiLoCo outer{ctx, model, {.every = 5}};
  int step = 0;
  raytrain::TrainingState state{{"averaged", averaged}, {"adam", adam}, model, {"inner", inner}, outer, {"step", step}};
  for ((void)ctx.restore(state); step < steps; ctx.report(Step{step}, raytrain::save(state))) {
    auto const x = torch::rand({3, 45}, ctx.generator());
    adam.zero_grad();
    inner.zero_grad();
    averaged(x).square().sum().backward();
    model(x).square().sum().backward();
    adam.step();
    inner.step();
    outer.step();
    if (++step % 4 == 0) ctx.average_parameters(averaged);
  }
}

}  // namespace

auto run(int argc, char** argv) -> int try {
  if (argc < 3) return 2;
  raytrain::ScalingConfig scaling;
  if (argc > 3) scaling.num_workers = std::atoi(argv[3]);
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      train,
      std::atoi(argv[2]),
      {.scaling = scaling, .run = {.name = "local", .storage_path = argv[1], .handle_signals = false}}};
  return trainer.fit().state == raytrain::RunState::finished ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

}  // namespace local_training
