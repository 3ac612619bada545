// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace raytrain::detail {

/// From now on freed memory stays with the process instead of going back to the system. glibc only.
///
/// By default every freed block above 128 KiB may be unmapped; mapped again it costs a page fault per 4 KiB.
void keep_freed_memory() noexcept;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/freed_memory-inl.hpp>
#endif
