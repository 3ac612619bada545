// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <utility>

#include <raytrain/core/inline.hpp>
#include <raytrain/exec/background_thread.hpp>

namespace raytrain {

RAYTRAIN_INLINE BackgroundThread::BackgroundThread() : thread_{[this]() noexcept { work(); }} {}

RAYTRAIN_INLINE BackgroundThread::~BackgroundThread() {
  {
    std::lock_guard const lock{mutex_};
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

RAYTRAIN_INLINE void BackgroundThread::add(Jobs& jobs, std::function<void()> job) {
  {
    std::lock_guard const lock{mutex_};
    jobs.push_back(std::move(job));
  }
  changed_.notify_one();
}

RAYTRAIN_INLINE void BackgroundThread::work() {
  std::unique_lock lock{mutex_};
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !jobs_.empty() || !later_.empty(); });
    auto& jobs = jobs_.empty() || later_.size() > most_later ? later_ : jobs_;
    if (jobs.empty()) return;
    auto job = std::move(jobs.front());
    jobs.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds may post from its destructor
    lock.lock();
  }
}

}  // namespace raytrain
