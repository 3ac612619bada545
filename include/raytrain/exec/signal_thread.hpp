// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/exec/signals.hpp>

namespace raytrain {

/// Calls `on_signal` with the number of each of these signals that comes, on a thread of its own, but for those from
/// `ignored_sender`, as `SignalWatcher`.
///
/// Errors: as `SignalWatcher`; `std::system_error` without a thread.
class SignalThread {
 public:
  SignalThread(std::vector<int> const& signals, std::function<void(int)> on_signal, ::pid_t ignored_sender = 0)
      : on_signal_{std::move(on_signal)}, watcher_{signals, ignored_sender}, thread_{[this]() noexcept {
          while (auto const signal = watcher_.next()) on_signal_(*signal);
        }} {}
  SignalThread(SignalThread const&) = delete;
  auto operator=(SignalThread const&) -> SignalThread& = delete;
  ~SignalThread() {
    watcher_.close();
    thread_.join();
  }

 private:
  std::function<void(int)> on_signal_;
  SignalWatcher watcher_;
  std::thread thread_;  ///< Last: it uses everything above.
};

}  // namespace raytrain
