// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/collective/detail/host_collective.hpp>
#include <raytrain/collective/shared_memory_group.hpp>

namespace raytrain {

/// One worker's place in a `SharedMemoryGroup`: exchanges arrays with the group's other processes, through memory they
/// all see. Arrays from `allocate` are in that memory; others go through it, which takes longer: by how much depends on
/// their size and the machine, from nothing to 4 times, as `benchmarks/run allreduce` shows.
using SharedMemoryCollective = detail::HostCollective<SharedMemoryGroup>;

}  // namespace raytrain
