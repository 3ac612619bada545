// SPDX-License-Identifier: Apache-2.0
// A user's program that needs no framework: two workers report, and the result has the last loss.
#include <cstdio>

#include <cereal/cereal.hpp>

#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

struct Epoch {
  int epoch;
  double loss;
  template <class A>
  void serialize(A& archive) {
    archive(CEREAL_NVP(epoch), CEREAL_NVP(loss));
  }
};

void train(raytrain::TrainContext& ctx) {
  for (int epoch = 0; epoch < 3; ++epoch) ctx.report(Epoch{epoch, 1.0 / (1 + epoch)});
}

auto main() -> int {
  raytrain::Trainer<raytrain::testing::MinimalBackend> trainer{
      train, {.scaling = {.num_workers = 2}, .run = {.name = "core", .storage_path = "runs"}}};
  auto const loss = trainer.fit().metrics.number("loss");
  std::printf("loss %g\n", loss.value_or(-1));
  return loss == 1.0 / 3 ? 0 : 1;
}
