// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <mutex>
#include <utility>

#include <raytrain/backend/torch/default_generator_lock.hpp>
#include <raytrain/backend/torch/generator_states.hpp>
#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/worker_collective.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/rank.hpp>

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

RAYTRAIN_TORCH_INLINE void UnlockingCollective::barrier() {
  Unlocked const unlocked{*lock_};
  collective_->barrier();
}

RAYTRAIN_TORCH_INLINE void UnlockingCollective::run(Task const& task) {
  Unlocked const unlocked{*lock_};
  run_task(*collective_, task);
}

}  // namespace raytrain::detail
