// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace raytrain::detail {

/// While one lives, freed memory stays with the process instead of going back to the system. glibc only, and not where
/// the environment settles it (`MALLOC_TRIM_THRESHOLD_` and others, `GLIBC_TUNABLES`).
///
/// Otherwise every freed block above 128 KiB may be unmapped; mapped again it costs a page fault per 4 KiB. Behind the
/// last one glibc's thresholds are those that it comes to by itself when a program has freed a block of 32 MiB, and
/// what a program has set by mallopt before is gone.
///
/// Threads: any.
class FreedMemoryStays {
 public:
  FreedMemoryStays() noexcept;
  FreedMemoryStays(FreedMemoryStays const&) = delete;
  auto operator=(FreedMemoryStays const&) -> FreedMemoryStays& = delete;
  ~FreedMemoryStays();
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/freed_memory-inl.hpp>
#endif
