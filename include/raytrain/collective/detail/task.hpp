// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/reduce.hpp>

namespace raytrain::detail {

/// One rank's part in an operation: its arguments have been checked, the other ranks' have not. What the elements of
/// its arrays are, only `call` knows, so that what performs it is compiled once for all types.
struct Task {
  Call call;
  std::span<std::byte const> from{};      ///< What this rank gives; empty where it gives nothing.
  std::span<std::byte> to{};              ///< What it gets; the same memory as `from` where it is in place. Or empty.
  Reducers const* reducers = nullptr;     ///< Where arrays are combined.
  std::span<std::size_t const> counts{};  ///< For all_gatherv: elements that each rank gives.
};

/// An operation that has been started. Its arrays are the operation's until `wait` has returned.
///
/// Threads: the one that has started it.
class Pending {
 public:
  /// What goes on meanwhile.
  class Work {
   public:
    Work() = default;
    Work(Work const&) = delete;
    auto operator=(Work const&) -> Work& = delete;
    virtual ~Work() = default;

    /// Returns when this rank may use its arrays again. Called once.
    ///
    /// Errors: the operation's.
    virtual void wait() = 0;
  };

  /// An operation that is over.
  Pending() = default;
  explicit Pending(std::unique_ptr<Work> work) noexcept : work_{std::move(work)} {}
  Pending(Pending&&) noexcept = default;
  auto operator=(Pending&& other) noexcept -> Pending& {
    std::swap(work_, other.work_);
    return *this;
  }
  /// Waits. An error is lost here, but the collective's next operation throws it as well.
  ~Pending() {
    if (work_ == nullptr) return;
    try {
      wait();
    } catch (...) {
      return;
    }
  }

  /// Errors: the operation's.
  void wait() {
    if (auto const work = std::move(work_)) work->wait();
  }

 private:
  std::unique_ptr<Work> work_;
};

}  // namespace raytrain::detail
