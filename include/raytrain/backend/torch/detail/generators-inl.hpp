// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <ranges>
#include <vector>

#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE auto default_generator_state() -> at::Tensor {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::scoped_lock const lock{generator.mutex()};
  return generator.get_state();
}

RAYTRAIN_TORCH_INLINE void set_default_generator_state(at::Tensor const& state) {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::scoped_lock const lock{generator.mutex()};
  generator.set_state(state);
}

RAYTRAIN_TORCH_INLINE auto generators_to_bytes(at::Generator const& own) -> Bytes {
  Bytes bytes;
  for (auto const& state : {own.get_state(), default_generator_state()}) {
    auto const* const first = static_cast<std::byte const*>(state.data_ptr());
    bytes.insert(bytes.end(), first, first + state.nbytes());
  }
  return bytes;
}

RAYTRAIN_TORCH_INLINE void generators_from_bytes(BytesView bytes, at::Generator& own) {
  auto const state_in = [](BytesView half) {
    auto state = torch::empty({static_cast<std::int64_t>(half.size())}, torch::kByte);
    std::memcpy(state.data_ptr(), half.data(), half.size());
    return state;
  };
  torch_call("loading the states of random numbers", [&] {
    own.set_state(state_in(bytes.first(bytes.size() / 2)));
    set_default_generator_state(state_in(bytes.subspan(bytes.size() / 2)));
  });
}

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
