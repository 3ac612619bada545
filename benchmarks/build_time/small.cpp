// SPDX-License-Identifier: Apache-2.0
// A small program without a framework: what it takes to compile is raytrain's own.
#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

struct Epoch {
  int epoch = 0;
  double loss = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(loss)); }
};

void train(raytrain::TrainContext& ctx) {
  for (int epoch = 0; epoch < 10; ++epoch) {
    if (ctx.stop_requested()) return;
    ctx.report(Epoch{epoch, ctx.average(1.0 / (epoch + ctx.world_rank().value + 1))});
  }
}

int main() {
  raytrain::TrainerConfig<raytrain::testing::MinimalBackend> config;
  config.scaling.num_workers = 2;
  config.run.name = "small";
  auto const result = raytrain::Trainer<raytrain::testing::MinimalBackend>{train, config}.fit();
  return result.state == raytrain::RunState::finished ? 0 : 1;
}
