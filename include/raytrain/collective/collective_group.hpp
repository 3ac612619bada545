// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/core/rank.hpp>

namespace raytrain {

/// What the collectives of a world are told from outside their operations, whichever model they are.
///
/// Threads: every function from any thread.
class CollectiveGroup {
 public:
  virtual ~CollectiveGroup() = default;

  [[nodiscard]] virtual auto size() const noexcept -> WorldSize = 0;

  /// Makes `stop_agreed` true on every rank, from the same operation on.
  virtual void request_stop() noexcept = 0;

  /// Makes ranks that wait for others, and all later calls, throw `Stopped`.
  virtual void abort() noexcept = 0;

  /// A worker's function has ended: ranks that wait for it throw `Error{Errc::rank_mismatch}`. After `abort` they throw
  /// `Stopped`; so a worker that fails aborts before it leaves.
  virtual void leave(Rank rank) noexcept = 0;

 protected:
  CollectiveGroup() = default;
};

}  // namespace raytrain
