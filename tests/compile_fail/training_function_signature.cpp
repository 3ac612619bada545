// SPDX-License-Identifier: Apache-2.0
// expect-error: raytrain: the training function is void\(Context&\), with the backend's Context
#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

using Trainer = raytrain::Trainer<raytrain::testing::MinimalBackend>;
void train(raytrain::TrainContext&) {}
void ok() { Trainer const trainer{train}; }

#ifdef RAYTRAIN_EXPECT_ERROR
void train_with_rate(raytrain::TrainContext&, double) {}
void wrong() { Trainer const trainer{train_with_rate}; }
#endif
