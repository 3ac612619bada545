// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/operations.hpp>
#include <raytrain/collective/worker_collective.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain {

/// A worker's collective that puts a `detail::CallTag` on every call, so that ranks compare the tag with the rest of
/// it.
///
/// Threads, Errors: as `WorkerCollective`, which must live as long.
class TaggedCollective : public detail::Operations<TaggedCollective> {
 public:
  explicit TaggedCollective(WorkerCollective& collective, detail::CallTag tag = {}) noexcept
      : collective_{collective}, tag_{tag} {}

  [[nodiscard]] auto rank() const noexcept -> Rank { return collective_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize { return collective_.size(); }

  /// The tag of the calls that follow.
  [[nodiscard]] auto tag() noexcept -> detail::CallTag& { return tag_; }

 private:
  friend class detail::Operations<TaggedCollective>;

  void run(detail::Task task) {
    task.call.tag = tag_;
    run_task(collective_, task);
  }

  WorkerCollective& collective_;
  detail::CallTag tag_;
};

}  // namespace raytrain
