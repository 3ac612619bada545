// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

#include <raytrain/backend/torch/detail/own_default_generator.hpp>
#include <raytrain/backend/torch/detail/shard_generators.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/shard_position.hpp>

namespace raytrain::detail {

/// Where a worker's random numbers come from: its own generator, what stands in for LibTorch's default one, and with
/// virtual shards the numbers of each of these; and their place in checkpoints.
///
/// Threads: the worker's, which makes and destroys it.
class WorkerGenerators {
 public:
  struct Worker {
    std::uint64_t seed = 0;  ///< The run's.
    Rank rank{};
    WorldSize world_size{};
    std::uint32_t virtual_shards = 0;
    bool shares_process = false;  ///< With other workers.
    std::optional<at::Device> gpu{};
  };

  explicit WorkerGenerators(Worker const& worker);
  WorkerGenerators(WorkerGenerators const&) = delete;
  auto operator=(WorkerGenerators const&) -> WorkerGenerators& = delete;

  [[nodiscard]] auto own() noexcept -> at::Generator& { return own_; }

  /// The same for tensors on the worker's device.
  [[nodiscard]] auto of_device() const -> at::Generator;

  /// As `ShardGenerators`, with virtual shards.
  void put_in_place(std::optional<ShardTurn> const& turn) { shards_->put_in_place(turn); }

  /// Adds all states, but for files that are there.
  void add_to(CheckpointDraft& draft);

  /// Goes on with the numbers of a checkpoint where as many workers, or shards, have saved them; else with others than
  /// before it.
  void restore(Checkpoint const& checkpoint);

 private:
  [[nodiscard]] auto worker_seed() const noexcept -> std::uint64_t;

  /// This worker's virtual shards.
  [[nodiscard]] auto own_shards() const -> std::vector<std::uint32_t>;
  void restore_shards(Checkpoint const& checkpoint);

  Worker worker_;
  at::Generator own_;
  std::optional<OwnDefaultGenerator> default_;  ///< Where several workers share the process.
  std::optional<ShardGenerators> shards_;       ///< With virtual shards.
  std::optional<std::uint64_t> iteration_;      ///< Of the checkpoint whose random numbers are not to come again.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/worker_generators-inl.hpp>
#endif
