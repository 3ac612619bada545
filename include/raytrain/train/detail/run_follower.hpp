// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <raytrain/checkpoint/checkpoint_copies.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/exec/background_thread.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/deadline.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/launch/controller_connection.hpp>
#include <raytrain/launch/hang_watch.hpp>
#include <raytrain/launch/job.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/train/detail/copy_exchange.hpp>
#include <raytrain/train/detail/fit_plan.hpp>
#include <raytrain/train/result.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

/// One `fit()` of which the controller lives in another process: on every rank but 0, and in worker processes.
///
/// Threads: the caller's of `fit()`, on which the executor runs until the controller has said how the run ended.
class RunFollower {
 public:
  struct Plan {
    FitPlan const& fit;
    WorkerRange workers{};          ///< As in `RunShared`.
    std::string controller;         ///< "the controller on rank 0 on node7", for messages.
    std::function<void()> prepare;  ///< Before the worker; may throw to refuse the run.
    std::function<std::unique_ptr<ControllerConnection>(ControllerConnection::Events)> connect;  ///< To the controller.
    bool is_supervised = false;  ///< A supervisor has started this process, and is asked to stop in its place.
    /// With a SIGTERM the parent of this process ends it for the sake of another one, as mpirun does, and that is no
    /// pre-emption.
    bool launcher_ends_job = false;
  };

  /// Errors: as `Plan::connect`.
  RunFollower(Job& job, Plan plan);

  RunFollower(RunFollower const&) = delete;
  auto operator=(RunFollower const&) -> RunFollower& = delete;
  ~RunFollower() { leave_job(); }

  /// Errors: as `Trainer::fit` on rank 0; `worker_failed` when the controller is lost.
  auto run() -> Result;

  /// As `run`, for a process that has no use for the result.
  void run_to_end();

 private:
  static constexpr std::size_t event_capacity = 1024;

  struct Lost {
    std::string why;
  };
  struct WorkerEnded {
    Attempt attempt;
  };
  using Event = std::variant<ControllerMessage, StopRequest, Preempted, Lost, WorkerEnded>;

  [[nodiscard]] auto what() const -> std::string { return "training on rank " + std::to_string(job_.rank().value); }
  [[nodiscard]] auto lost_text() const -> std::string;

  auto drive() -> asio::awaitable<void> {
    while (!ended_ && !lost_) {
      auto event = co_await events_.receive();
      take(*event);
    }
    if (!lost_) co_return;
    link_->deliver(Stop{true});
    bool const returned =
        co_await finish_by(executor_, plan_.fit.clock.after(plan_.fit.run.return_grace()), wait_for_worker());
    is_stuck_ = !returned;
  }

  auto wait_for_worker() -> asio::awaitable<void> {
    while (works_) {
      auto event = co_await events_.receive();
      take(*event);
    }
  }

  void leave_job() noexcept;

  void take(Event& event);

  void on(Begin& begin);
  void on(Stop const& stop);
  void on(CheckpointSettled const& settled) {
    if (copies_) copies_->settle(settled);
    link_->deliver(settled);
  }
  void on(RankReturned const& returned) { job_.tell_group(returned); }
  void on(Ended& ended) { ended_ = std::move(ended); }
  void on(LeftBehind const&) {}  // the connection has taken it

  void connect_worker(Attempt attempt);

  void open_run(Begin const& begin);

  void launch(Begin& begin);

  /// What one host wrote last must be what another one reads.
  static void check_same_folder(std::filesystem::path const& path, Begin const& begin);

  Job& job_;
  Plan plan_;
  Executor executor_;
  Channel<Event> events_;
  std::unique_ptr<ControllerConnection> connection_;
  std::optional<WorkerLink> link_;          // of the present attempt
  std::shared_ptr<CheckpointStore> store_;  // none before its worker begins
  std::shared_ptr<CheckpointCopies> copies_ = copies_as(plan_.fit.run.checkpoint);
  std::optional<BackgroundThread> store_thread_;
  HangWatch hang_watch_{plan_.fit.run.failure.hang_timeout};
  std::optional<Ended> ended_;
  std::optional<std::string> lost_;
  bool works_ = false;     // the worker of this process
  bool is_stuck_ = false;  // it did not return when the controller was lost
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/run_follower-inl.hpp>
#endif
