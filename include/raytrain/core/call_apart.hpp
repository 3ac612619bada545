// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace raytrain::detail {

/// The calls of `call_apart` in this process that are not over.
///
/// Threads: any.
class CallsApart {
 public:
  [[nodiscard]] static auto of_process() -> CallsApart& {
    static auto& calls = *new CallsApart;  // never destroyed: threads may use it while the process exits
    static AtExit const at_exit{calls};
    return calls;
  }

  void begin() {
    std::scoped_lock const lock{mutex_};
    ++pending_;
  }
  void end() noexcept {
    {
      std::scoped_lock const lock{mutex_};
      --pending_;
    }
    changed_.notify_all();
  }

 private:
  /// At exit, waits for calls under way before the libraries that were there at the first call are taken down: none
  /// may still run in them. At most a second, since a call may never end.
  struct AtExit {
    CallsApart& calls;
    explicit AtExit(CallsApart& all) noexcept : calls{all} {}
    AtExit(AtExit const&) = delete;
    auto operator=(AtExit const&) -> AtExit& = delete;
    ~AtExit() {
      constexpr std::chrono::seconds moment{1};
      std::unique_lock lock{calls.mutex_};
      calls.changed_.wait_for(lock, moment, [&] { return calls.pending_ == 0; });
    }
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  int pending_ = 0;
};

/// Calls `function`, which may wait for other ranks without a limit, on a thread for which nobody has to wait; on this
/// one where there is no other to be had. It must not throw, nor use what may end before it does. The process waits for
/// it at its end, for at most a second.
///
/// The future is ready when the function has returned; it is not valid where the function was called on this thread.
/// Destroying it waits for nothing.
template <class Function>
[[nodiscard]] auto call_apart(Function const& function) -> std::future<void> {
  auto& calls = CallsApart::of_process();
  calls.begin();
  std::future<void> end;
  try {
    std::promise<void> called;
    end = called.get_future();
    std::thread{[function, &calls, called = std::move(called)]() mutable {
      function();
      called.set_value();
      calls.end();
    }}.detach();
  } catch (std::exception const&) {
    calls.end();
    function();
    return {};
  }
  return end;
}

}  // namespace raytrain::detail
