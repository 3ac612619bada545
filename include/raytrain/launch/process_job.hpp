// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/control_client.hpp>
#include <raytrain/launch/job.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/launch/worker_process.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

namespace detail {

/// Where a worker of `Launch::processes` stands, in the supervisor's eyes and in its own.
[[nodiscard]] auto place_process(Rank rank, WorldSize size, WorkerCores const& cores) -> Placement;

}  // namespace detail

/// A worker process's part in the training of its supervisor, which has a `ProcessLauncher`.
///
/// Threads: as `Job`.
class ProcessJob final : public Job {
 public:
  struct Options {
    ScalingConfig scaling{};
    std::chrono::milliseconds collective_timeout{};
    std::vector<SharedSetting> settings{};
  };

  ProcessJob(detail::WorkerStart const& start, Options options);
  ~ProcessJob() override {
    join_worker();
    end();
  }

  /// Attaches the memory that the supervisor has made for this attempt.
  void prepare(Begin const& begin) override;

 private:
  Options options_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/process_job-inl.hpp>
#endif
