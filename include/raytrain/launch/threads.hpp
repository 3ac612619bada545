// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/core/usable_cores.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/worker_link.hpp>

namespace raytrain {

/// Workers are threads of this process.
///
/// Threads: as the `Launcher` concept says. Destruction waits for the workers.
class ThreadLauncher {
 public:
  explicit ThreadLauncher(ScalingConfig const& scaling)
      : size_{scaling.world_size()}, pin_cpus_{scaling.pin_cpus}, cores_{usable_cores()} {
    auto const share = static_cast<int>(cores_.size() / size_.value);
    cpus_ = scaling.resources_per_worker.cpus > 0 ? scaling.resources_per_worker.cpus : std::max(1, share);
  }

  ThreadLauncher(ThreadLauncher const&) = delete;
  auto operator=(ThreadLauncher const&) -> ThreadLauncher& = delete;
  ~ThreadLauncher() { join(); }

  [[nodiscard]] auto size() const noexcept -> WorldSize { return size_; }

  void launch(WorkerMain main, MessageSink sink) {
    links_.clear();
    for (std::uint32_t rank = 0; rank < size_.value; ++rank) {
      Placement const placement{Rank{rank}, size_, Rank{rank}, size_, Rank{0}, cpus_};
      links_.push_back(std::make_unique<WorkerLink>(placement, sink));
    }
    // Nobody runs before all threads exist, so that a thread that cannot be made leaves no worker behind.
    auto const gate = std::make_shared<Gate>();
    try {
      for (auto const& link : links_) {
        threads_.emplace_back([this, gate, main, worker = link.get()] {
          gate->open.wait(Gate::closed);
          if (gate->open == Gate::cancelled) return;
          name_and_pin(worker->placement().world_rank);
          main(*worker);
        });
      }
    } catch (std::system_error const& error) {
      auto const started = threads_.size();
      gate->set(Gate::cancelled);
      join();
      throw Error{Errc::worker_failed, "starting " + std::to_string(size_.value) + " worker threads",
                  "the system gave " + std::to_string(started) + " of them (" + error.what() + ")",
                  "lower ScalingConfig::num_workers or raise the limit on processes (ulimit -u)"};
    } catch (...) {
      gate->set(Gate::cancelled);
      join();
      throw;
    }
    gate->set(Gate::opened);
  }

  void tell(Message const& message) {
    for (auto const& link : links_) link->deliver(message);
  }

  void join() noexcept { threads_.clear(); }

 private:
  struct Gate {
    enum State : int { closed, opened, cancelled };
    std::atomic<int> open = closed;

    void set(State state) {
      open = state;
      open.notify_all();
    }
  };

  void name_and_pin(Rank rank) const {
    pthread_setname_np(pthread_self(), ("worker-" + std::to_string(rank.value)).c_str());
    if (!pin_cpus_) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu = 0; cpu < cpus_; ++cpu) {
      CPU_SET(cores_[(rank.value * static_cast<std::size_t>(cpus_) + static_cast<std::size_t>(cpu)) % cores_.size()],
              &set);
    }
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  }

  WorldSize size_;
  bool pin_cpus_;
  std::vector<int> cores_;
  int cpus_ = 1;
  std::vector<std::unique_ptr<WorkerLink>> links_;  // outlive the threads: declared before them
  std::vector<std::jthread> threads_;
};

static_assert(Launcher<ThreadLauncher>);

}  // namespace raytrain
