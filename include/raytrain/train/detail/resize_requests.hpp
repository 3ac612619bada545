// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include <raytrain/config/scaling_config.hpp>

namespace raytrain::detail {

/// Where `Trainer::resize` finds the run that a `fit()` of this trainer drives.
///
/// Threads: any.
class ResizeRequests {
 public:
  ResizeRequests() = default;
  // A copy of a trainer drives runs of its own.
  ResizeRequests(ResizeRequests const&) {}
  auto operator=(ResizeRequests const&) -> ResizeRequests& { return *this; }
  ~ResizeRequests() = default;

  /// Errors: `invalid_config` for a number out of the range; `invalid_call` while there is no run.
  void ask(std::int64_t workers);

  /// Takes the requests while it lives.
  class Taker {
   public:
    Taker(ResizeRequests& requests, WorkerRange range, std::function<void(std::int64_t)> take);
    Taker(Taker const&) = delete;
    auto operator=(Taker const&) -> Taker& = delete;
    ~Taker();

   private:
    ResizeRequests& requests_;
  };

 private:
  std::mutex mutex_;
  WorkerRange range_;
  std::function<void(std::int64_t)> take_;
};

/// SIGUSR1, which asks for one worker more, and SIGUSR2, for one fewer, as far as the program leaves them as they are.
[[nodiscard]] auto free_user_signals() -> std::vector<int>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/resize_requests-inl.hpp>
#endif
