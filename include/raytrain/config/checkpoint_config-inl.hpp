// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE void CheckpointConfig::validate() const {
  if (num_to_keep && *num_to_keep < 1) {
    throw Error{Errc::invalid_config, "CheckpointConfig::num_to_keep",
                "must be at least 1 (got " + std::to_string(*num_to_keep) + ")",
                "leave it unset to keep every checkpoint"};
  }
}

}  // namespace raytrain
