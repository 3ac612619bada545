// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace raytrain {

/// Who makes the batches of a loop, and how many of them ahead of it.
struct PrefetchOptions {
  int threads = 1;  ///< Not negative. 0: each batch is made when the loop comes to it, in the loop's own thread.
  int prefetch_factor = 2;  ///< Batches for each thread, made or in the making, that the loop has not come to; from 1.

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/prefetch_options-inl.hpp>
#endif
