// SPDX-License-Identifier: Apache-2.0
// expect-error: raytrain: prepare_optimizer\(\) takes an element-wise optimizer
#include <raytrain/backend/torch.hpp>

void ok(raytrain::TorchContext& ctx, torch::nn::Linear const& model) {
  (void)ctx.prepare_optimizer<raytrain::Adadelta>(model, {1.0});
}

#ifdef RAYTRAIN_EXPECT_ERROR
void wrong(raytrain::TorchContext& ctx, torch::nn::Linear const& model) {
  (void)ctx.prepare_optimizer<raytrain::LAMB>(model, {1e-3});
}
#endif
