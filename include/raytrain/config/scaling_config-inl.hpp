// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto WorkerCount::text() const -> std::string {
  if (!is_set()) return "not set";
  return is_elastic() ? std::to_string(*fewest_) + " to " + std::to_string(*most_) : std::to_string(*most_);
}

RAYTRAIN_INLINE void ScalingConfig::validate() const {
  auto const possible = [](std::int64_t workers) {
    return std::to_string(std::clamp<std::int64_t>(workers, 1, max_workers));
  };
  auto const remedy = num_workers.is_elastic()
                          ? '{' + possible(num_workers.fewest_or(1)) + ", " + possible(num_workers.most_or(1)) + '}'
                          : possible(num_workers.most_or(1));
  for (auto const workers : {num_workers.fewest_or(1), num_workers.most_or(1)}) {
    if (workers >= 1 && workers <= max_workers) continue;
    throw Error{Errc::invalid_config, "ScalingConfig::num_workers",
                "must be from 1 to " + std::to_string(max_workers) + " (got " + std::to_string(workers) + ")",
                "write {.scaling = {.num_workers = " + remedy + "}}"};
  }
  if (num_workers.fewest_or(1) > num_workers.most_or(1)) {
    throw Error{Errc::invalid_config, "ScalingConfig::num_workers",
                "is {fewest, most}, and the first one must not be the larger one (got " + num_workers.text() + ")",
                "write {.scaling = {.num_workers = {" + std::to_string(num_workers.most_or(1)) + ", " +
                    std::to_string(num_workers.fewest_or(1)) + "}}}"};
  }
  if (virtual_shards < 0 || virtual_shards > max_workers) {
    throw Error{Errc::invalid_config, "ScalingConfig::virtual_shards",
                "must be from 0 to " + std::to_string(max_workers) + " (got " + std::to_string(virtual_shards) + ")",
                "write the most workers that the run may ever have, or 0 for one shard for each worker"};
  }
  check_virtual_shards(world_size());
  if (resources_per_worker.cpus < 0) {
    throw Error{Errc::invalid_config, "ScalingConfig::resources_per_worker.cpus",
                "must not be negative (got " + std::to_string(resources_per_worker.cpus) + ")",
                "write 0 for an equal share of the cores"};
  }
  validate_gpus();
  for (auto const& [name, amount] : resources_per_worker.custom) {
    auto const refuse = [&](std::string const& happened, std::string const& remedy) {
      throw Error{Errc::invalid_config, "ScalingConfig::resources_per_worker.custom", happened, remedy};
    };
    auto const is_of_launchers = name.ends_with("slots") || name.ends_with("cpus");
    if (name.empty() || name.find_first_of(" \t\r\n=#") != std::string::npos || is_of_launchers) {
      refuse("'" + name + "' cannot be told from what else a line of a host file says", "write {{\"license\", 1}}");
    }
    if (!(amount > 0) || !std::isfinite(amount)) {
      refuse("must be above 0 (got " + std::to_string(amount) + " of '" + name + "')", "leave it out, or write 0.5");
    }
    if (launch != Launch::mpirun) {
      refuse("names '" + name + "', of which only the hosts of Launch::mpirun say how much they have",
             "write .launch = Launch::mpirun, or leave it out");
    }
  }
  if (start_timeout.count() < 0) {
    throw Error{Errc::invalid_config, "ScalingConfig::start_timeout",
                "must not be negative (got " + std::to_string(start_timeout.count()) + " ms)",
                "write 0 for as long as it takes"};
  }
  if (job_command.empty() || job_command.front().empty()) {
    throw Error{Errc::invalid_config, "ScalingConfig::job_command", "must name a program (got none)",
                "write {.scaling = {.job_command = {\"mpirun\"}}}"};
  }
  if (launch != Launch::mpirun && job_command != ScalingConfig{}.job_command) {
    std::string words;
    for (auto const& word : job_command) words += (words.empty() ? "" : " ") + word;
    throw Error{Errc::invalid_config, "ScalingConfig::job_command",
                "is set (got '" + words + "'), and starts workers with Launch::mpirun alone",
                "write .launch = Launch::mpirun, or leave it out"};
  }
}

RAYTRAIN_INLINE void ScalingConfig::validate_gpus() const {
  auto const gpus = resources_per_worker.gpus;
  if (!(gpus >= 0) || !std::isfinite(gpus) || (gpus > 1 && gpus != std::floor(gpus))) {
    throw Error{Errc::invalid_config, "ScalingConfig::resources_per_worker.gpus",
                "must be whole, or a part of one (got " + std::to_string(gpus) + ")",
                "write 1 or 2 for GPUs of a worker's own, or 0.5 for two workers on each"};
  }
  if (use_gpu) return;
  auto const refuse = [](char const* field, std::string const& value) {
    throw Error{Errc::invalid_config, std::string{"ScalingConfig::"} + field,
                "is set (got " + value + "), and use_gpu is not", "write .use_gpu = true, or leave it out"};
  };
  if (gpus > 0) refuse("resources_per_worker.gpus", std::to_string(gpus));
  if (!accelerator_type.empty()) refuse("accelerator_type", "'" + accelerator_type + "'");
}

RAYTRAIN_INLINE void ScalingConfig::refuse_gpus(std::string_view backend) const {
  if (!use_gpu) return;
  throw Error{Errc::invalid_config, "ScalingConfig::use_gpu",
              "is set for the backend " + std::string{backend} + ", whose workers train on the CPU",
              "leave it out, or train with TorchBackend"};
}

RAYTRAIN_INLINE void ScalingConfig::check_virtual_shards(WorldSize workers) const {
  if (virtual_shards <= 0 || workers.value <= static_cast<std::uint32_t>(virtual_shards)) return;
  throw Error{Errc::invalid_config, "ScalingConfig::virtual_shards",
              "must not be below the number of workers (got " + std::to_string(virtual_shards) + " for " +
                  std::to_string(workers.value) + " workers)",
              "write the most workers that the run may ever have"};
}

RAYTRAIN_INLINE auto ScalingConfig::world_size() const noexcept -> WorldSize {
  return {static_cast<std::uint32_t>(num_workers.most_or(1))};
}

}  // namespace raytrain
