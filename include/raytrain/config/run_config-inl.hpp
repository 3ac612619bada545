// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void validate_metadata(std::map<std::string, std::string> const& metadata) {
  auto const refuse = [](std::string const& happened, std::string const& remedy) {
    throw Error{Errc::invalid_config, "RunConfig::metadata", happened, remedy};
  };
  std::size_t bytes = 0;
  for (auto const& [key, value] : metadata) {
    if (key.empty()) refuse("must not have an empty key (got one with the value '" + to_utf8(value) + "')", "name it");
    if (!is_utf8(key) || !is_utf8(value)) {
      refuse("must be UTF-8 text ('" + to_utf8(key) + "' is not)",
             "encode bytes as text, or write them to a file in TrainContext::run_path()");
    }
    bytes += key.size() + value.size();
  }
  if (bytes > RunConfig::max_metadata_bytes) {
    refuse("must have at most " + std::to_string(RunConfig::max_metadata_bytes) + " bytes of keys and values (got " +
               std::to_string(bytes) + ")",
           "write what is larger to a file in TrainContext::run_path()");
  }
}

}  // namespace raytrain::detail

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
  detail::validate_metadata(metadata);
  checkpoint.validate();
  failure.validate();
}

}  // namespace raytrain
