// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE void RunConfig::validate() const {
  if (name.find('/') != std::string::npos || name == "." || name == "..") {
    throw Error{Errc::invalid_config, "RunConfig::name", "must be one folder's name (got '" + name + "')",
                "put folders into RunConfig::storage_path"};
  }
  if (storage_path.empty()) {
    throw Error{Errc::invalid_config, "RunConfig::storage_path", "must not be empty", "write \".\" for this folder"};
  }
  if (stop_grace.count() < 0) {
    throw Error{Errc::invalid_config, "RunConfig::stop_grace",
                "must not be negative (got " + std::to_string(stop_grace.count()) + " ms)",
                "write 0 to stop workers at their next collective"};
  }
  if (collective_timeout.count() <= 0) {
    throw Error{Errc::invalid_config, "RunConfig::collective_timeout",
                "must be above 0 (got " + std::to_string(collective_timeout.count()) + " ms)",
                "write std::chrono::hours{24} to wait as good as for ever"};
  }
  checkpoint.validate();
  failure.validate();
}

}  // namespace raytrain
