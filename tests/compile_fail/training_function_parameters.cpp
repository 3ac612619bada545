// SPDX-License-Identifier: Apache-2.0
// expect-error: raytrain: the training function is void\(Context&, Params const&\), with the backend's Context
#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

using Trainer = raytrain::Trainer<raytrain::testing::MinimalBackend>;
struct Params {
  double rate = 0;
};
void train(raytrain::TrainContext&, Params const&) {}
void ok() { Trainer const trainer{train, Params{0.1}, {}}; }

#ifdef RAYTRAIN_EXPECT_ERROR
void train_without(raytrain::TrainContext&) {}
void wrong() { Trainer const trainer{train_without, Params{0.1}, {}}; }
#endif
