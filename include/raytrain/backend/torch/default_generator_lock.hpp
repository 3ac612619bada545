// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <mutex>
#include <utility>

#include <raytrain/backend/torch/generator_states.hpp>
#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/worker_collective.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// Locks LibTorch's default generator, which all threads of the process share, until it is destroyed.
///
/// Threads: the worker's, which may hold several.
class DefaultGeneratorLock {
 public:
  /// Lets other workers use the generator until `relock`, which restores its state.
  void unlock();
  void relock();

 private:
  static auto mutex() -> std::recursive_mutex&;

  std::unique_lock<std::recursive_mutex> lock_{mutex()};
  at::Tensor state_;
};

/// A worker's collective that unlocks the generator during each operation: the other workers of the process must lock
/// it themselves before they can join the operation.
class UnlockingCollective : public Operations<UnlockingCollective> {
 public:
  UnlockingCollective(WorkerCollective& collective, DefaultGeneratorLock& lock) noexcept
      : collective_{&collective}, lock_{&lock} {}

  [[nodiscard]] auto rank() const noexcept -> Rank { return collective_->rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize { return collective_->size(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool { return collective_->stop_agreed(); }

  void barrier();

  template <Element T>
  [[nodiscard]] auto allocate(std::size_t size) -> Buffer<T> {
    return collective_->template allocate<T>(size);
  }

 private:
  friend class Operations<UnlockingCollective>;

  struct Unlocked {
    explicit Unlocked(DefaultGeneratorLock& held) : lock{held} { lock.unlock(); }
    Unlocked(Unlocked const&) = delete;
    auto operator=(Unlocked const&) -> Unlocked& = delete;
    ~Unlocked() { lock.relock(); }
    DefaultGeneratorLock& lock;
  };

  void run(Task const& task);

  WorkerCollective* collective_;
  DefaultGeneratorLock* lock_;
};

/// Makes `collective` unlock the generator during its operations, until the scope ends.
class UnlockingScope {
 public:
  UnlockingScope(WorkerCollective& collective, DefaultGeneratorLock& lock)
      : outer_{collective}, inner_{std::exchange(collective, WorkerCollective{UnlockingCollective{inner_, lock}})} {}
  UnlockingScope(UnlockingScope const&) = delete;
  auto operator=(UnlockingScope const&) -> UnlockingScope& = delete;
  ~UnlockingScope() { outer_ = std::move(inner_); }

 private:
  WorkerCollective& outer_;
  WorkerCollective inner_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/default_generator_lock-inl.hpp>
#endif
