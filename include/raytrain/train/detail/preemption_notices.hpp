// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <raytrain/exec/signal_thread.hpp>

namespace raytrain::detail {

/// In a process that a supervisor has started: calls `on_notice` at each SIGTERM, on a thread of its own. One that the
/// program ignores stays ignored. At most one object in the life of a process.
class PreemptionNotices {
 public:
  /// `launcher_ends_job`: with a SIGTERM the parent of this process ends it for the sake of another one, as mpirun
  /// does, and that is no notice.
  PreemptionNotices(bool launcher_ends_job, std::function<void()> on_notice);

 private:
  SignalThread signals_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/preemption_notices-inl.hpp>
#endif
