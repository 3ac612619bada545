// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <raytrain/backend/torch/detail/collective_memory.hpp>
#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/message/container_bytes.hpp>

namespace raytrain {

struct PowerSGDConfig {
  int rank = 2;            ///< Columns of the two matrices that travel for each gradient; at least 1.
  int exact_steps = 100;   ///< First steps, in which gradients change most and travel as they are; from 0.
  std::uint64_t seed = 0;  ///< Of the numbers with which `factors` begin; the same on every worker.

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;
};

/// What `PowerSGD` keeps from one step to the next: this worker's own, as a part of a `TrainingState`.
struct PowerSGDState {
  std::int64_t steps = 0;
  // By the names of parameters, whose gradients are matrices of {rows, columns}.
  std::map<std::string, std::vector<float>> factors;  ///< {columns, rank}; the same on every worker.
  /// {rows, columns}: what the worker's gradients had, and the average had not.
  std::map<std::string, std::vector<float>> errors;

  template <class A>
  void serialize(A& archive) {
    archive(steps, factors, errors);
  }
};

/// Lets a gradient of `rows` x `columns` travel as two matrices of `rank` columns, whose product comes near to it. What
/// that loses is added to the worker's gradient of the next step. For `ModelOptions::exchange`:
///
///     auto const power_sgd = std::make_shared<raytrain::PowerSGD>();
///     auto model = ctx.prepare_model([] { return Net{}; }, {.exchange = power_sgd});
///     raytrain::TrainingState state{model, optimizer, {"power_sgd", power_sgd->state()}};
///
/// A parameter's rows are its first dimension, the columns all others. A gradient for which that is not half as many
/// numbers, as of a bias, and one of double travel as they are; so does every one in a world of one. A gradient that is
/// not finite on one worker is not finite on all, and nothing of it is kept.
///
/// It pays where the network between hosts is slow: `rank` times (rows + columns) numbers travel, in two operations a
/// bucket. Without its state in the checkpoint, and with another number of workers, it begins anew, with exact steps.
/// Errors are in the scale of the gradients: where a `GradScaler` of fp16 changes that, those of the step before count
/// too much, or too little, once.
///
/// Cost: a copy of the gradients in memory, and another one of a bucket's while it is exchanged; three products of
///       matrices a gradient. On a GPU the copy that stays is in CPU memory, for checkpoints: each step brings
///       it there and back, for which the program waits.
/// Errors: `backend` in the first step for a state of another model, or rank.
/// Source: T. Vogels, S. P. Karimireddy, M. Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
///         Optimization", NeurIPS 2019, arXiv 1905.13727, with its warm start and error feedback; PyTorch's
///         powerSGD_hook.
class PowerSGD final : public GradientExchange {
 public:
  /// Errors: as `PowerSGDConfig::validate`.
  explicit PowerSGD(PowerSGDConfig config = {});

  [[nodiscard]] auto state() noexcept -> PowerSGDState& { return state_; }

  void exchange(GradientBucket const& bucket, Collective& collective) override;
  [[nodiscard]] auto description() const -> std::string override;

 private:
  struct Matrix;

  /// Columns of its matrices; 0 where it travels as it is.
  [[nodiscard]] auto rank_of(at::Tensor const& gradient) const -> std::int64_t;
  [[nodiscard]] auto matrix_of(GradientBucket::Part const& part) -> Matrix;
  /// The numbers of `values`, which has `size` of them unless it is new.
  [[nodiscard]] static auto kept(std::vector<float>& values, std::int64_t size, std::string const& name) -> at::Tensor;
  void exchange_matrices(GradientBucket const& bucket, Collective& collective);

  PowerSGDConfig config_;
  PowerSGDState state_;
  detail::CollectiveMemory memory_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/power_sgd-inl.hpp>
#endif
