// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/gradient_averager.hpp>
#include <raytrain/backend/torch/detail/joined_batch.hpp>
#include <raytrain/backend/torch/detail/model_exchange.hpp>
#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/backend/torch/detail/tensors_of_ranks.hpp>
#include <raytrain/backend/torch/detail/worker_device.hpp>
#include <raytrain/backend/torch/detail/worker_step.hpp>
#include <raytrain/backend/torch/model_options.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/shard_position.hpp>

namespace raytrain::detail {

/// The models that a worker has prepared: those whose gradients are averaged, those of a world of one, and those that
/// each worker trains by itself.
///
/// Threads: the worker's.
class PreparedModels {
 public:
  struct Worker {
    Collective& collective;
    WorkerDevice& device;
    std::shared_ptr<WorkerStep> worker_step;
    std::shared_ptr<StepTimer> timer;
    std::uint32_t virtual_shards = 0;
    std::function<void(std::string)> warn;
    std::function<void(std::string)> print;
    bool has_spare_core = false;
    bool spans_hosts = false;
  };

  explicit PreparedModels(Worker worker)
      : worker_{std::move(worker)},
        joined_batch_{std::make_shared<JoinedBatch>(worker_.collective, worker_.worker_step)} {}

  /// How often a model was prepared, from which the next one's number follows.
  [[nodiscard]] auto count() const noexcept -> std::uint64_t { return count_; }

  /// Gives every rank rank 0's state, and averages gradients from now on. A group operation.
  void train_together(torch::nn::Module const& module, ModelOptions const& options);

  /// Gives every rank rank 0's state; from there each worker trains the model by itself. Returns the model's number. A
  /// group operation.
  ///
  /// Errors: `invalid_call` with virtual shards.
  auto train_apart(torch::nn::Module const& module) -> std::uint16_t;

  /// Whether each worker trains it by itself.
  [[nodiscard]] auto is_local(torch::nn::Module const& module) const -> bool;

  /// As `detail::trains_unprepared`.
  [[nodiscard]] auto leaves_out(torch::optim::Optimizer const& optimizer) const -> bool;

  /// Null for a model whose gradients nobody averages.
  [[nodiscard]] auto find_averager(torch::nn::Module const& module) const -> GradientAverager*;

  /// Null in a world of one, whose gradients nobody averages. Errors: `backend` for a model that is not prepared.
  [[nodiscard]] auto averager_of(torch::nn::Module const& module) const -> GradientAverager const*;

  /// The mean of `GradientAverager::measured_share` over the models that have one; none where none has.
  [[nodiscard]] auto measured_share() const -> std::optional<double>;

  /// Lets averagers of a world of one divide the sums of windows.
  void begin_accumulating_alone();

  /// The first one with gradients of a window that are not averaged yet; null if there is none.
  [[nodiscard]] auto holder_of_sum() const -> GradientAverager const*;
  /// Errors: `invalid_call` if there is one.
  void check_windows_are_averaged() const;

  /// Errors: as `check_none_is_shared`.
  void check_none_is_shared(char const* attempted) const;
  /// Errors: `backend` for a model that should have been prepared again.
  void check_unchanged() const;

  /// Whether virtual shards of a step are yet to come.
  [[nodiscard]] auto is_within_step() const -> bool;
  /// The virtual shard whose batch begins; none: the worker has no batch.
  void begin_turn(std::optional<ShardTurn> const& turn) const;

 private:
  /// A model of a world of one.
  struct Alone {
    std::weak_ptr<torch::nn::Module const> model;
    std::uint16_t number;
  };

  /// Ends what was done for a model that is prepared again. Returns whether its backwards are timed without an
  /// averager.
  auto leave(torch::nn::Module const& module) -> bool;
  /// Warns of a module without a parameter, on rank 0.
  void check_has_parameter(torch::nn::Module const& module, std::uint16_t number) const;
  /// Gives all ranks rank 0's parameters and buffers. A group operation.
  ///
  /// Errors: `rank_mismatch` on all ranks when one has another model, with what rank 0 and that one have; `backend` for
  ///         a tensor that is sparse.
  void share_state(torch::nn::Module const& module, std::uint16_t number, WithGradients with_gradients);
  void make_averager(torch::nn::Module const& module, std::uint16_t number, ModelExchange exchange);
  /// With virtual shards. Errors: `invalid_call` for gradients of 16 bits.
  void check_sums_by_shards(torch::nn::Module const& module) const;
  /// Lets the model's layers of `SyncBatchNorm` compute with the batches of all workers.
  void connect_norms(torch::nn::Module const& module, std::uint16_t number) const;

  Worker worker_;
  std::shared_ptr<JoinedBatch> joined_batch_;
  std::vector<std::unique_ptr<GradientAverager>> averagers_;
  std::string shared_parameter_text_;  ///< As `text_of_shared_parameter`.
  std::vector<Alone> alone_;
  std::vector<std::weak_ptr<torch::nn::Module const>> local_;  ///< That each worker trains by itself.
  bool accumulates_alone_ = false;
  std::uint64_t count_ = 0;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/prepared_models-inl.hpp>
#endif
