// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <raytrain/backend/torch/gradient_exchange.hpp>

namespace raytrain {

/// For `ModelOptions::exchange`: workers' gradients are combined by `adasum`, parameter by parameter, in the place of
/// their mean. For large batches: the sum where gradients of workers have nothing in common, the mean where they are
/// the same, so that a learning rate for one worker stays right for many.
///
///     auto model = ctx.prepare_model([] { return Net{}; }, {.exchange = raytrain::adaptive_sum()});
///
/// With `accumulate`, what each worker has accumulated is its gradient. In a world of one it changes nothing, and a
/// worker that has no batch left (`TorchContext::join`) adds nothing.
///
/// Cost:   that of `adasum`, for each parameter: about 3 times the bytes of a mean, and more messages.
/// Source: S. Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021; Horovod's `op=Adasum`.
[[nodiscard]] auto adaptive_sum() -> std::shared_ptr<GradientExchange>;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/adaptive_sum-inl.hpp>
#endif
