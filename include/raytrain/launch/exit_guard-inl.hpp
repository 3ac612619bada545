// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdlib>
#include <mutex>

#include <raytrain/core/fork_generation.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/exit_guard.hpp>
#include <raytrain/launch/process_end.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE ExitGuard::ExitGuard() {
  [[maybe_unused]] static int const registered = std::atexit(&refuse) + std::at_quick_exit(&refuse);
  generation_ = fork_generation();
  std::lock_guard const lock{mutex_};
  ++living_;
}

RAYTRAIN_INLINE void ExitGuard::end_process_beside_others() noexcept {
  count_down();
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, std::chrono::seconds{1}, [] { return living_ == 0; });
  end_process();
}

RAYTRAIN_INLINE void ExitGuard::count_down() noexcept {
  std::lock_guard const lock{mutex_};
  --living_;
  changed_.notify_all();
}

RAYTRAIN_INLINE void ExitGuard::refuse() noexcept {
  if (living_ == 0 || generation_ != fork_generation()) return;
  say_last_word(
      "raytrain: the program called exit() before fit() had returned: return from the training function or "
      "the callback, or throw; this process ends with exit status 75, start it again to go on with what is left to "
      "do\n");
  end_process();
}

}  // namespace raytrain::detail
