// SPDX-License-Identifier: Apache-2.0
// expect-error: raytrain: each worker trains a local model by an optimizer of its own
#include <raytrain/backend/torch.hpp>

void ok(raytrain::TorchContext& ctx, torch::nn::Linear const& model) {
  (void)ctx.prepare_optimizer<torch::optim::AdamW>(model, {3e-4});
}

#ifdef RAYTRAIN_EXPECT_ERROR
void wrong(raytrain::TorchContext& ctx, raytrain::LocalModel<torch::nn::Linear> const& model) {
  (void)ctx.prepare_optimizer<torch::optim::AdamW>(model, {3e-4});
}
#endif
