// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace raytrain {

/// Bytes to be copied from one place to another one, which do not overlap.
struct CopyPiece {
  std::byte* to{};
  std::byte const* from{};
  std::size_t size_bytes{};
};

/// Copies all pieces, with up to `threads` threads where there is enough for them. Where two pieces go to the same
/// place, one thread copies all in their order.
void parallel_copy(std::span<CopyPiece const> pieces, std::size_t threads);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/parallel_copy-inl.hpp>
#endif
