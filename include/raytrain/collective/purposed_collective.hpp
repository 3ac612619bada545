// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/operations.hpp>
#include <raytrain/collective/worker_collective.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain {

/// A worker's collective whose operations all have a `detail::Purpose`, which ranks compare with the rest of the call.
///
/// Threads, Errors: as `WorkerCollective`, which must live as long.
class PurposedCollective : public detail::Operations<PurposedCollective> {
 public:
  explicit PurposedCollective(WorkerCollective& collective, detail::Purpose purpose = {}) noexcept
      : collective_{collective}, purpose_{purpose} {}

  [[nodiscard]] auto rank() const noexcept -> Rank { return collective_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize { return collective_.size(); }

  /// Of the operations that follow.
  [[nodiscard]] auto purpose() noexcept -> detail::Purpose& { return purpose_; }

 private:
  friend class detail::Operations<PurposedCollective>;

  void run(detail::Task task) {
    task.call.purpose = purpose_;
    run_task(collective_, task);
  }

  WorkerCollective& collective_;
  detail::Purpose purpose_;
};

}  // namespace raytrain
