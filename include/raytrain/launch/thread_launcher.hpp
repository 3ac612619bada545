// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/detail/worker_cores.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/worker_link.hpp>

namespace raytrain {

/// Workers are threads of this process, which exchange arrays by `make_collectives`.
class ThreadLauncher final : public Launcher {
 public:
  ThreadLauncher(ScalingConfig const& scaling, MakeCollectives make_collectives)
      : scaling_{scaling},
        range_{detail::range_on_cores(scaling)},
        size_{range_.wanted},
        cores_{scaling_, size_.value},
        make_collectives_{std::move(make_collectives)} {}
  ~ThreadLauncher() override;

  [[nodiscard]] auto size() const noexcept -> WorldSize override { return size_; }
  [[nodiscard]] auto range() const noexcept -> WorkerRange override { return range_; }
  void resize(WorldSize size) override;

  void launch(WorkerLaunch what) override;

  void tell(ControllerMessage const& message) override;

  void join() noexcept override { end_threads(); }

  void leave_workers_behind(std::vector<Rank> const&, std::string const& exit_text) noexcept override;

 private:
  struct StartLatch {
    enum State : int { closed, opened, cancelled };
    std::atomic<int> open = closed;

    void set(State state);
  };

  [[nodiscard]] auto made_collectives(WaitLimits limits) const -> Collectives;
  void end_threads() noexcept { threads_.clear(); }

  ScalingConfig scaling_;
  WorkerRange range_;
  WorldSize size_;
  detail::WorkerCores cores_;
  MakeCollectives make_collectives_;
  std::vector<std::unique_ptr<WorkerLink>> links_;  // outlive the threads: declared before them
  std::vector<std::jthread> threads_;
  bool leaves_workers_behind_ = false;
};

/// One worker that has the cores and GPUs of all that the settings ask for.
[[nodiscard]] auto in_one_thread(ScalingConfig scaling) -> ScalingConfig;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/thread_launcher-inl.hpp>
#endif
