// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/collective/local.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/launch/detail/worker_thread.hpp>
#include <raytrain/launch/exit_guard.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/process_end.hpp>
#include <raytrain/launch/worker.hpp>
#include <raytrain/launch/worker_link.hpp>

namespace raytrain {

/// Workers are threads of this process.
class ThreadLauncher final : public Launcher {
 public:
  explicit ThreadLauncher(ScalingConfig const& scaling) : size_{scaling.world_size()}, cores_{scaling, size_.value} {}
  ~ThreadLauncher() override {
    if (left_behind_) detail::ExitGuard::end_process_beside_others();
    end_threads();
  }

  [[nodiscard]] auto size() const noexcept -> WorldSize override { return size_; }

  void launch(WorkerLaunch what) override {
    auto const group = std::make_shared<LocalGroup>(size_, std::move(what.limits));
    links_.clear();
    for (std::uint32_t rank = 0; rank < size_.value; ++rank) {
      Placement const placement{
          Rank{rank}, size_, Rank{rank}, size_, Rank{0}, cores_.cpus(), static_cast<int>(cores_.cores().size())};
      links_.push_back(std::make_unique<WorkerLink>(placement, what.sink.send));
    }
    // Nobody runs before all threads exist, so that a thread that cannot be made leaves no worker behind.
    auto const gate = std::make_shared<Gate>();
    try {
      for (auto const& link : links_) {
        threads_.emplace_back([this, gate, main = what.main, group, worker = link.get()] {
          gate->open.wait(Gate::closed);
          if (gate->open == Gate::cancelled) return;
          cores_.take(worker->placement());
          main(Worker{*worker, group, LocalCollective{group, worker->placement().world_rank}});
        });
      }
    } catch (std::system_error const& error) {
      auto const started = threads_.size();
      gate->set(Gate::cancelled);
      end_threads();
      throw Error{Errc::worker_failed, "starting " + std::to_string(size_.value) + " worker threads",
                  "the system gave " + std::to_string(started) + " of them (" + error.what() + ")",
                  "lower ScalingConfig::num_workers or raise the limit on processes (ulimit -u)"};
    } catch (...) {
      gate->set(Gate::cancelled);
      end_threads();
      throw;
    }
    gate->set(Gate::opened);
  }

  void tell(Message const& message) override {
    for (auto const& link : links_) link->deliver(message);
  }

  void join() noexcept override { end_threads(); }

  void leave_behind(std::vector<Rank> const&, std::string const& last_word) noexcept override {
    left_behind_ = true;
    detail::say_last_word(last_word);
  }

 private:
  struct Gate {
    enum State : int { closed, opened, cancelled };
    std::atomic<int> open = closed;

    void set(State state) {
      open = state;
      open.notify_all();
    }
  };

  void end_threads() noexcept { threads_.clear(); }

  WorldSize size_;
  detail::WorkerCores cores_;
  std::vector<std::unique_ptr<WorkerLink>> links_;  // outlive the threads: declared before them
  std::vector<std::jthread> threads_;
  bool left_behind_ = false;
};

}  // namespace raytrain
