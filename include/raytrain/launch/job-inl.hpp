// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/job.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/process_end.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void WarningRelay::send_to(std::function<void(std::string const&)> to) {
  std::scoped_lock const lock{mutex_};
  to_ = std::move(to);
  is_taken_ = true;
}

RAYTRAIN_INLINE void WarningRelay::send_to_stderr() {
  std::scoped_lock const lock{mutex_};
  to_ = nullptr;
  is_taken_ = false;
}

RAYTRAIN_INLINE void WarningRelay::tell(std::string const& text) {
  auto const [to, is_taken] = [this] {
    std::scoped_lock const lock{mutex_};
    return std::pair{to_, is_taken_};
  }();
  if (!is_taken) write_stderr("raytrain: " + text + '\n');
  if (to) to(text);
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE void Job::renew_world(std::function<std::unique_ptr<JobWorld>()> const& make) {
  std::unique_ptr<JobWorld> spent;
  {
    std::scoped_lock const lock{world_mutex_};
    spent = std::move(world_);
  }
  spent.reset();
  warnings_->send_to_stderr();  // until the next worker begins
  auto made = make();
  std::scoped_lock const lock{world_mutex_};
  world_ = std::move(made);
  if (abandoned_) world_->abandon();
}

RAYTRAIN_INLINE void Job::tell_group(RankReturned const& returned) noexcept {
  std::scoped_lock const lock{world_mutex_};
  if (world_ != nullptr) world_->group->leave(returned.rank, returned.operations);
}

RAYTRAIN_INLINE void Job::abandon() noexcept {
  std::scoped_lock const lock{world_mutex_};
  abandoned_ = true;
  if (world_ != nullptr) world_->abandon();
}

RAYTRAIN_INLINE void Job::start_worker(WorkerMain main, WorkerLink& link,
                                       std::function<void(std::string const&)> on_warning) {
  warnings_->send_to(std::move(on_warning));
  try {
    worker_ = std::jthread{[this, main = std::move(main), &link] {
      cores_->take(placement_);
      main({link, world_->group, [this] { return std::move(world_->collective); }});
    }};
  } catch (std::system_error const& error) {
    throw Error{Errc::worker_failed, "starting the worker of rank " + std::to_string(rank().value),
                std::string{"the system gave no thread ("} + error.what() + ")",
                "raise the limit on processes (ulimit -u)"};
  }
}

RAYTRAIN_INLINE void Job::join_worker() noexcept {
  if (!worker_.joinable()) return;
  if (!leaves_worker_behind_) worker_.join();
  warnings_->send_to(nullptr);
}

RAYTRAIN_INLINE void Job::leave_workers_behind(LeftBehind const& left) noexcept {
  // MPI could not end without their processes, nor a process without its worker.
  abandon();
  if (std::ranges::find(left.ranks, rank()) == left.ranks.end()) return;
  leaves_worker_behind_ = true;
  detail::write_stderr(left.exit_text);
}

RAYTRAIN_INLINE void Job::end() noexcept {
  if (leaves_worker_behind_) detail::end_process();
}

}  // namespace raytrain
