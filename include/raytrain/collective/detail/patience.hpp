// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

namespace raytrain::detail {

/// For who must ask again and again whether something is done: at first without a pause, then less and less often, so
/// that a short wait ends at once and a long one takes no core.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] auto waited() const noexcept -> Clock::duration { return Clock::now() - begin_; }

  void pause() {
    auto const so_far = waited();
    if (so_far < spin_time) return;
    if (so_far < yield_time) return std::this_thread::yield();
    std::this_thread::sleep_for(so_far < nap_time ? short_nap : long_nap);
  }

 private:
  static constexpr std::chrono::microseconds spin_time{50};
  static constexpr std::chrono::milliseconds yield_time{2};
  static constexpr std::chrono::milliseconds nap_time{100};
  static constexpr std::chrono::microseconds short_nap{50};
  static constexpr std::chrono::milliseconds long_nap{1};

  Clock::time_point begin_ = Clock::now();
};

}  // namespace raytrain::detail
