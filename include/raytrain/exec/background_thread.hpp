// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace raytrain {

/// One thread for work that would block a coroutine, such as writing files. Jobs of `post` run in their order.
///
/// Threads: `post` and `post_later` from any thread, from a job too.
/// Cancel:  none; the destructor waits until every job has run.
/// Errors:  a job that throws ends the program: it catches, and sends what happened through a `Channel`.
class BackgroundThread {
 public:
  BackgroundThread();
  BackgroundThread(BackgroundThread const&) = delete;
  auto operator=(BackgroundThread const&) -> BackgroundThread& = delete;
  ~BackgroundThread();

  void post(std::function<void()> job) { add(jobs_, std::move(job)); }

  /// A job that runs only when no job of `post` waits. When more than 4 of these wait, the oldest runs first: otherwise
  /// a busy thread would never delete, and the disk would fill.
  void post_later(std::function<void()> job) { add(later_, std::move(job)); }

 private:
  using Jobs = std::deque<std::function<void()>>;
  static constexpr std::size_t most_later = 4;

  void add(Jobs& jobs, std::function<void()> job);

  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  Jobs jobs_;
  Jobs later_;
  bool ending_ = false;
  std::thread thread_;  ///< Last: it uses everything above.
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/exec/background_thread-inl.hpp>
#endif
