// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace raytrain::detail {

/// Another number in a process that was forked since, without exec. What was made under another one is the parent's:
/// the child has a copy of it, and none of its threads.
///
/// Threads: any.
[[nodiscard]] auto fork_generation() noexcept -> std::uint32_t;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/fork_generation-inl.hpp>
#endif
