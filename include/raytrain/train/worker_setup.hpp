// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_copies.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/config/data_config.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/exec/background_thread.hpp>
#include <raytrain/launch/worker_link.hpp>

namespace raytrain {

class CheckpointStore;
class HangWatch;

namespace detail {
class PreparedDatasets;
}  // namespace detail

/// What all workers of one process share in one attempt.
struct RunShared {
  std::string experiment_name;
  std::filesystem::path run_path;
  std::uint64_t seed = 0;
  std::map<std::string, std::string> metadata;
  Datasets datasets;  ///< As they were given.
  DataConfig data;
  /// The datasets as the run's preprocessor makes them; null without one.
  std::shared_ptr<detail::PreparedDatasets> prepared{};
  WorkerRange workers{};                           ///< Of an elastic run.
  std::uint32_t virtual_shards = 0;                ///< `ScalingConfig::virtual_shards`.
  std::chrono::milliseconds collective_timeout{};  ///< As in `RunConfig`.
  CheckpointConfig checkpoint_config;
  double between_failures_s = 0;                 ///< As in `Begin`.
  std::optional<Checkpoint> checkpoint;          ///< The one to go on from.
  bool begins_from_other_run = false;            ///< `checkpoint` is that of `RunConfig::resume_from_checkpoint`.
  CheckpointOrdinal first_checkpoint{};          ///< As in `Begin`.
  std::vector<std::string> known_report_fields;  ///< Those of the run in this directory; empty before its first report.
  Clock& clock;
  CheckpointStore& store;
  BackgroundThread& store_thread;  ///< On which this process works in the store, in order.
  HangWatch& hang_watch;           ///< Of all workers of the process.
  std::stop_source failed{};       ///< Fires when one of these workers has failed.
  /// Copies of the run's checkpoints in the memory of this process; null: none are kept.
  std::shared_ptr<CheckpointCopies> copies{};
  bool has_first_rank = false;  ///< Rank 0's worker is one of these.
};

/// What a worker's context is made of; handed to `Backend::make_context` on the worker's own thread.
struct WorkerSetup {
  WorkerLink& link;
  std::shared_ptr<RunShared const> run;
  std::shared_ptr<CollectiveGroup> group;
  std::unique_ptr<Collective> collective;  ///< Never null.
};

}  // namespace raytrain
