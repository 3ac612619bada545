// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <string>
#include <utility>

#include <raytrain/backend/torch/detail/gradient_averager.hpp>
#include <raytrain/backend/torch/detail/shadow_backward.hpp>
#include <raytrain/backend/torch/detail/worker_step.hpp>
#include <raytrain/backend/torch/sync_batch_norm.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void shadow_backward(torch::nn::Module const& module, GradientAverager* averager,
                                           WorkerStep const& worker_step) {
  auto const refuse = [](std::string happened, char const* remedy) {
    throw Error{Errc::invalid_call, "a backward without a batch", std::move(happened), remedy};
  };
  worker_step.with_batch.check_shadow_backward();
  if (averager == nullptr) {
    refuse("its model is a local one, or is not prepared, so that a backward of it exchanges nothing",
           "make the model by ctx.prepare_model(), and give what that returns");
  }
  if (worker_step.window.is_open()) {
    refuse(fmt::format("shadow_backward() was called within a window of accumulate({})", worker_step.window.length()),
           "call accumulate() for batches alone, of which this worker has none");
  }
  for (auto const& submodule : module.modules()) {
    auto const* const norm = dynamic_cast<SyncBatchNormImpl const*>(submodule.get());
    if (norm == nullptr || !norm->is_training()) continue;
    refuse(fmt::format("model {} has a SyncBatchNorm, whose forward exchanges as well", averager->model_number()),
           "take torch::nn::BatchNorm1d, 2d or 3d, or give every worker as many batches");
  }
  averager->shadow_backward();
}

}  // namespace raytrain::detail
