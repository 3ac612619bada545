// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include <raytrain/core/fork_generation.hpp>
#include <raytrain/launch/process_end.hpp>

namespace raytrain::detail {

/// While one lives, exit() and quick_exit() end the process with a status that does not say that all went well.
class ExitGuard {
 public:
  ExitGuard() {
    [[maybe_unused]] static int const registered = std::atexit(&refuse) + std::at_quick_exit(&refuse);
    generation_ = fork_generation();
    ++living_;
  }
  ExitGuard(ExitGuard const&) = delete;
  auto operator=(ExitGuard const&) -> ExitGuard& = delete;
  ~ExitGuard() { --living_; }

 private:
  static void refuse() noexcept {
    if (living_ == 0 || generation_ != fork_generation()) return;
    say_last_word(
        "raytrain: the program called exit() before fit() had returned: return from the training function or "
        "the callback, or throw; this process ends with exit status 75, start it again to go on with what is left to "
        "do\n");
    end_process();
  }

  static inline std::atomic<int> living_ = 0;
  static inline std::atomic<std::uint32_t> generation_ = 0;
};

}  // namespace raytrain::detail
