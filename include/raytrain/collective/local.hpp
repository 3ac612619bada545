// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/collective/detail/host_collective.hpp>
#include <raytrain/collective/local_group.hpp>

namespace raytrain {

/// One worker's place in a `LocalGroup`: exchanges arrays with the group's other threads, in memory they all see.
using LocalCollective = detail::HostCollective<LocalGroup>;

}  // namespace raytrain
