// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <mutex>
#include <ranges>
#include <vector>

#include <raytrain/backend/torch/default_generator_lock.hpp>
#include <raytrain/backend/torch/generator_states.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void DefaultGeneratorLock::unlock() {
  state_ = default_generator_state();
  lock_.unlock();
}

RAYTRAIN_TORCH_INLINE void DefaultGeneratorLock::relock() {
  lock_.lock();
  set_default_generator_state(state_);
}

RAYTRAIN_TORCH_INLINE auto DefaultGeneratorLock::mutex() -> std::recursive_mutex& {
  static std::recursive_mutex one_at_a_time;
  return one_at_a_time;
}

RAYTRAIN_TORCH_INLINE auto UnlockingCollective::start(Task const& task) -> Pending {
  if (held_.empty()) [[likely]]
    return collective_->start(task);
  struct Unlocked {
    explicit Unlocked(std::vector<DefaultGeneratorLock*> const& held) : locks{held} {
      for (auto* const lock : std::views::reverse(locks)) lock->unlock();
    }
    Unlocked(Unlocked const&) = delete;
    auto operator=(Unlocked const&) -> Unlocked& = delete;
    ~Unlocked() {
      for (auto* const lock : locks) lock->relock();
    }
    std::vector<DefaultGeneratorLock*> const& locks;
  } const unlocked{held_};
  collective_->start(task).wait();
  return {};
}

}  // namespace raytrain::detail
