// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>

#include <raytrain/backend/torch/detail/worker_step.hpp>
#include <raytrain/backend/torch/non_finite.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// Looks at the losses of one worker.
class LossCheck {
 public:
  /// Returns what is to be warned of, if anything. Errors: as `TorchContext::check_finite`.
  auto check(at::Tensor const& loss, NonFinite then, Rank rank, WorkerStep const& worker_step)
      -> std::optional<std::string>;

 private:
  std::uint64_t checked_ = 0;
  std::uint64_t not_finite_ = 0;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/loss_check-inl.hpp>
#endif
