// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/prefetch_options.hpp>

namespace raytrain {

RAYTRAIN_INLINE void PrefetchOptions::validate() const {
  if (threads < 0) {
    throw Error{Errc::invalid_config, "PrefetchOptions::threads", fmt::format("must not be negative (got {})", threads),
                "write {.threads = 0} to make batches in the loop's own thread"};
  }
  if (prefetch_factor < 1) {
    throw Error{Errc::invalid_config, "PrefetchOptions::prefetch_factor",
                fmt::format("must be at least 1 (got {})", prefetch_factor),
                "write {.prefetch_factor = 1}, or {.threads = 0} to make none ahead"};
  }
}

}  // namespace raytrain
