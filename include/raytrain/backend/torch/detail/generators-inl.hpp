// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <ranges>
#include <string_view>
#include <vector>

#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/own_default_generator.hpp>
#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE auto default_generator_state() -> at::Tensor {
  auto generator = OwnDefaultGenerator::current();
  std::scoped_lock const lock{generator.mutex()};
  return generator.get_state();
}

RAYTRAIN_TORCH_INLINE void set_default_generator_state(at::Tensor const& state) {
  auto generator = OwnDefaultGenerator::current();
  std::scoped_lock const lock{generator.mutex()};
  generator.set_state(state);
}

RAYTRAIN_TORCH_INLINE void seed_default_generator(std::uint64_t seed, at::Device device) {
  auto const set = [seed](at::Generator generator) {
    std::scoped_lock const lock{generator.mutex()};
    generator.set_current_seed(seed);
  };
  set(OwnDefaultGenerator::current());
  if (!device.is_cpu()) set(OwnDefaultGenerator::current(device));
}

RAYTRAIN_TORCH_INLINE void seed_generators(std::uint64_t seed, at::Generator& own) {
  own.set_current_seed(own_seed(seed));
  seed_default_generator(seed);
}

RAYTRAIN_TORCH_INLINE auto generator_to_bytes(at::Generator const& generator) -> Bytes {
  auto const state = generator.get_state();
  auto const* const first = static_cast<std::byte const*>(state.data_ptr());
  return {first, first + state.nbytes()};
}

RAYTRAIN_TORCH_INLINE void generator_from_bytes(BytesView bytes, at::Generator& generator, std::string_view attempted) {
  torch_call(attempted, [&] {
    auto state = torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kByte);
    std::memcpy(state.data_ptr(), bytes.data(), bytes.size());
    generator.set_state(state);
  });
}

RAYTRAIN_TORCH_INLINE auto generators_to_bytes(at::Generator const& own) -> Bytes {
  auto bytes = generator_to_bytes(own);
  auto generator = OwnDefaultGenerator::current();
  std::scoped_lock const lock{generator.mutex()};
  auto const shared = generator_to_bytes(generator);
  bytes.insert(bytes.end(), shared.begin(), shared.end());
  return bytes;
}

RAYTRAIN_TORCH_INLINE void generators_from_bytes(BytesView bytes, at::Generator& own) {
  constexpr auto attempted = "loading the states of random numbers";
  generator_from_bytes(bytes.first(bytes.size() / 2), own, attempted);
  auto generator = OwnDefaultGenerator::current();
  std::scoped_lock const lock{generator.mutex()};
  generator_from_bytes(bytes.subspan(bytes.size() / 2), generator, attempted);
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

class UnlockingCollective::Unlocked {
 public:
  explicit Unlocked(std::vector<DefaultGeneratorLock*> const& held) : locks_{held} {
    for (auto* const lock : std::views::reverse(locks_)) lock->unlock();
  }
  Unlocked(Unlocked const&) = delete;
  auto operator=(Unlocked const&) -> Unlocked& = delete;
  ~Unlocked() {
    for (auto* const lock : locks_) lock->relock();
  }

 private:
  std::vector<DefaultGeneratorLock*> const& locks_;
};

RAYTRAIN_TORCH_INLINE auto UnlockingCollective::duplicate() -> std::unique_ptr<Collective> {
  Unlocked const unlocked{held_};
  return collective_->duplicate();
}

RAYTRAIN_TORCH_INLINE auto UnlockingCollective::start(Task const& task) -> Pending {
  if (held_.empty()) [[likely]]
    return collective_->start(task);
  Unlocked const unlocked{held_};
  collective_->start(task).wait();
  return {};
}

}  // namespace raytrain::detail
