// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

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

RAYTRAIN_INLINE auto is_each_workers_own(std::string_view variable) -> bool {
  for (auto const* const prefix : {"RAYTRAIN_", "OMPI_COMM_WORLD_", "PMI_"}) {
    if (variable.starts_with(prefix)) return true;
  }
  constexpr std::string_view names[] = {"RANK",      "LOCAL_RANK",     "WORLD_SIZE",  "LOCAL_WORLD_SIZE",
                                        "PMIX_RANK", "PMIX_NAMESPACE", "SLURM_PROCID"};
  return std::ranges::find(names, variable) != std::end(names);
}

RAYTRAIN_INLINE void validate_env(std::map<std::string, std::string> const& env) {
  auto const refuse = [](std::string const& happened, std::string const& remedy) {
    throw Error{Errc::invalid_config, "RunConfig::env", happened, remedy};
  };
  auto const is_part = [](unsigned char byte) { return byte < 0x80U && (std::isalnum(byte) != 0 || byte == '_'); };
  for (auto const& [name, value] : env) {
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0 ||
        !std::ranges::all_of(name, is_part)) {
      auto shown = to_utf8(name);
      std::ranges::replace(shown, '\0', '?');
      refuse("must have names of letters, digits and '_' that begin with no digit (got '" + shown + "')",
             "write {.env = {{\"NAME\", \"value\"}}}");
    }
    if (is_each_workers_own(name)) {
      refuse("must not have '" + name + "', which raytrain and MPI set themselves",
             "leave it out; what is to go for the whole program, set in the environment in which it is started");
    }
    // Linux starts no program with a longer one.
    if (constexpr std::size_t longest = 128 << 10U; name.size() + value.size() + 2 > longest) {
      refuse(
          "must have less than 128 KiB in a variable ('" + name + "' has " + std::to_string(value.size()) + " bytes)",
          "write it to a file, and the file's name into the variable");
    }
    if (value.find('\0') != std::string::npos) {
      refuse("must have no byte 0 in a value ('" + name + "' has one)", "encode bytes as text");
    }
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
  detail::validate_env(env);
  checkpoint.validate();
  failure.validate();
}

}  // namespace raytrain
