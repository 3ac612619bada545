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

/// LibTorch's default generator for one worker of the process at a time: whoever else wants a lease waits.
class GeneratorLease {
 public:
  /// Others may have it until `take_back`, which returns it as it was.
  void lend() {
    state_ = default_generator_state();
    lock_.unlock();
  }
  void take_back() {
    lock_.lock();
    set_default_generator_state(state_);
  }

 private:
  static auto mutex() -> std::recursive_mutex& {
    static std::recursive_mutex one_at_a_time;
    return one_at_a_time;
  }

  std::unique_lock<std::recursive_mutex> lock_{mutex()};
  at::Tensor state_;
};

/// A worker's collective that lends the worker's lease during each operation, since the others come to it only when
/// they have had theirs.
class LendingCollective : public Operations<LendingCollective> {
 public:
  LendingCollective(WorkerCollective& collective, GeneratorLease& lease) noexcept
      : collective_{&collective}, lease_{&lease} {}

  [[nodiscard]] auto rank() const noexcept -> Rank { return collective_->rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize { return collective_->size(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool { return collective_->stop_agreed(); }

  void barrier() {
    Loan const loan{*lease_};
    collective_->barrier();
  }

  template <Element T>
  [[nodiscard]] auto allocate(std::size_t size) -> Buffer<T> {
    return collective_->template allocate<T>(size);
  }

 private:
  friend class Operations<LendingCollective>;

  struct Loan {
    explicit Loan(GeneratorLease& of) : lease{of} { lease.lend(); }
    Loan(Loan const&) = delete;
    auto operator=(Loan const&) -> Loan& = delete;
    ~Loan() { lease.take_back(); }
    GeneratorLease& lease;
  };

  void run(Task const& task) {
    Loan const loan{*lease_};
    run_task(*collective_, task);
  }

  WorkerCollective* collective_;
  GeneratorLease* lease_;
};

/// As long as it lives, `collective` lends `lease` during its operations.
class LendingScope {
 public:
  LendingScope(WorkerCollective& collective, GeneratorLease& lease)
      : outer_{collective}, inner_{std::exchange(collective, WorkerCollective{LendingCollective{inner_, lease}})} {}
  LendingScope(LendingScope const&) = delete;
  auto operator=(LendingScope const&) -> LendingScope& = delete;
  ~LendingScope() { outer_ = std::move(inner_); }

 private:
  WorkerCollective& outer_;
  WorkerCollective inner_;
};

}  // namespace raytrain::detail
