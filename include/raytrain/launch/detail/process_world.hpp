// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/job.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

// By what the workers of `Launch::processes` exchange arrays: shared memory, which is named here alone.

/// The group of an attempt's workers, in their supervisor; `begin` then says where they find it. Errors: `io`.
[[nodiscard]] auto make_process_group(WorldSize size, Begin& begin) -> std::shared_ptr<CollectiveGroup>;

/// The same attempt's workers as that rank, in its own process, sees them.
///
/// Errors: `io`; `worker_failed` where the group is that of another attempt.
[[nodiscard]] auto process_world(Begin const& begin, Rank rank, WaitLimits limits) -> std::unique_ptr<JobWorld>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/process_world-inl.hpp>
#endif
