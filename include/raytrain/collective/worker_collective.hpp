// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/collective_model.hpp>
#include <raytrain/collective/detail/operations.hpp>
#include <raytrain/collective/detail/pages.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain {

/// A worker's collective, of whichever model its launch has given it: what a training function finds in its context.
///
/// Threads: one at a time, the worker's.
/// Errors:  those of the model.
/// Cost:    the model's; of any other than `LocalCollective` with a virtual call more.
class WorkerCollective : public detail::Operations<WorkerCollective> {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): it is the same with fewer promises
  WorkerCollective(LocalCollective collective) : local_{std::move(collective)} {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  template <class C>
  requires(!std::same_as<C, WorkerCollective>) && Collective<C>  // asked about itself, clang goes round in a circle
      WorkerCollective(C collective) : other_{std::make_unique<detail::CollectiveModelOf<C>>(std::move(collective))} {}

  WorkerCollective(WorkerCollective&&) noexcept = default;
  auto operator=(WorkerCollective&&) noexcept -> WorkerCollective& = default;
  ~WorkerCollective() = default;

  [[nodiscard]] auto rank() const noexcept -> Rank { return local_ ? local_->rank() : other_->rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize { return local_ ? local_->size() : other_->size(); }

  /// Whether the run was asked to stop, as of this rank's last operation; in a world of one, as of now.
  [[nodiscard]] auto stop_agreed() const noexcept -> bool;

  /// Whether arrays are in the memory of the worker's GPU; otherwise they are in the host's.
  [[nodiscard]] auto takes_device_arrays() const noexcept -> bool { return !local_ && other_->takes_device_arrays(); }

  /// Returns when all ranks have called it.
  void barrier() { return local_ ? local_->barrier() : other_->barrier(); }

  /// An array of `size` zeros, with which operations are fastest. Each rank allocates as it likes, without the others.
  ///
  /// Errors: `std::bad_alloc`.
  template <Element T>
  [[nodiscard]] auto allocate(std::size_t size) -> Buffer<T> {
    if (local_) return local_->template allocate<T>(size);
    return {other_->allocate(detail::array_bytes<T>(size)), size};
  }

 private:
  friend class detail::Operations<WorkerCollective>;

  void run(detail::Task const& task);

  std::optional<LocalCollective> local_;
  std::unique_ptr<detail::CollectiveModel> other_;
};

static_assert(Collective<WorkerCollective>);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/worker_collective-inl.hpp>
#endif
