// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/file_digest.hpp>
#include <raytrain/config/data_config.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/train/detail/config_text.hpp>
#include <raytrain/train/detail/fit_plan.hpp>
#include <raytrain/train/detail/resume_point.hpp>
#include <raytrain/train/detail/run_identity.hpp>
#include <raytrain/version.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto program_name() -> std::string {
  std::error_code ignored;
  auto const path = std::filesystem::read_symlink("/proc/self/exe", ignored);
  auto name = path.empty() ? std::string{"program"} : path.filename().string();
  // What the system appends once the program was built anew while it runs.
  constexpr std::string_view deleted = " (deleted)";
  if (name.ends_with(deleted)) name.resize(name.size() - deleted.size());
  return name;
}

RAYTRAIN_INLINE auto program_digest() -> std::string {
  try {
    return file_digest("/proc/self/exe");
  } catch (Error const&) {
    return "unknown";
  }
}

RAYTRAIN_INLINE auto shared_settings(FitPlan const& plan) -> std::vector<SharedSetting> {
  auto const& run = plan.run;
  std::vector<SharedSetting> settings;
  auto const add = [&](std::string name, auto const& value) {
    if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(value)>>) {
      settings.push_back({std::move(name), std::to_string(static_cast<int>(value))});
    } else if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
      settings.push_back({std::move(name), std::to_string(value)});
    } else {
      settings.push_back({std::move(name), "'" + std::string{value} + "'"});
    }
  };
  add("raytrain's version", version);
  add("the program", program_name());
  add("the program's build (XXH3 of its file)", program_digest());
  add("the backend", plan.backend);
  settings.push_back({"ScalingConfig::num_workers", plan.scaling.num_workers.text()});
  add("ScalingConfig::virtual_shards", plan.scaling.virtual_shards);
  add("ScalingConfig::reduction", plan.scaling.reduction);
  add("RunConfig::name", run.name);
  add("RunConfig::storage_path", run.storage_path.string());
  add("RunConfig::seed", run.seed);
  add("RunConfig::resume", run.resume);
  settings.push_back({"RunConfig::resume_from_checkpoint", source_text(run.resume_from_checkpoint)});
  add("RunConfig::failure.max_failures", run.failure.max_failures);
  add("RunConfig::failure.max_preemptions", run.failure.max_preemptions);
  add("RunConfig::failure.hang_timeout", run.failure.hang_timeout.count());
  add("RunConfig::checkpoint.mode", run.checkpoint.mode);
  settings.push_back({"RunConfig::checkpoint.every", run.checkpoint.every ? run.checkpoint.every->text() : "not set"});
  add("RunConfig::checkpoint.when_busy", run.checkpoint.when_busy);
  add("RunConfig::checkpoint.on_failed_write", run.checkpoint.on_failed_write);
  add("RunConfig::checkpoint.write_retries", run.checkpoint.write_retries);
  add("RunConfig::checkpoint.memory_copies", run.checkpoint.memory_copies);
  add("RunConfig::checkpoint.store", run.checkpoint.store ? "set" : "not set");
  add("RunConfig::collective_timeout", run.collective_timeout.count());
  settings.push_back({"DataConfig::datasets_to_split", config_text(plan.data.datasets_to_split)});
  add("TrainerConfig::datasets", dataset_names(plan.datasets));
  for (auto const& [name, dataset] : plan.datasets) {
    add("rows of the dataset '" + name + "'", dataset.rows());
    // What is not split may be each rank's own.
    if (is_split(plan.data, name)) add("the digest of the dataset '" + name + "'", dataset.digest());
  }
  if (plan.preprocessor) {
    auto const json = write_json(plan.preprocessor);
    settings.push_back(
        {"TrainerConfig::preprocessor",
         fmt::format("a {} (XXH3 of its JSON: {})", plan.preprocessor.type_name(), xxh3_of(bytes_of(json)))});
  }
  settings.push_back({"TrainerConfig::backend", plan.backend_settings()});
  return settings;
}

RAYTRAIN_INLINE auto rows_of(Datasets const& datasets) -> std::map<std::string, std::uint64_t> {
  std::map<std::string, std::uint64_t> rows;
  for (auto const& [name, dataset] : datasets) rows.emplace(name, dataset.rows());
  return rows;
}

RAYTRAIN_INLINE auto digests_of(Datasets const& datasets) -> std::map<std::string, std::string> {
  std::map<std::string, std::string> digests;
  for (auto const& [name, dataset] : datasets) digests.emplace(name, dataset.digest());
  return digests;
}

RAYTRAIN_INLINE auto changes_since(Checkpoint const& checkpoint, std::uint64_t seed, Datasets const& datasets)
    -> std::vector<std::string> {
  std::vector<std::string> changes;
  auto const add = [&, before = fmt::format("goes on from checkpoint {}, before which ", checkpoint.number().value)](
                       std::string const& change) { changes.push_back(before + change + " now"); };
  if (auto const seed_before = checkpoint.seed().value_or(seed); seed_before != seed) {
    add("RunConfig::seed was " + std::to_string(seed_before) + "; it is " + std::to_string(seed));
  }
  for (auto const& [name, dataset] : datasets) {
    auto const rows = std::uint64_t{dataset.rows()};
    auto const rows_before = checkpoint.dataset_rows(name);
    auto const digest_before = checkpoint.dataset_digest(name);
    if (rows_before && *rows_before != rows) {
      add("dataset '" + name + "' had " + std::to_string(*rows_before) + " rows; it has " + std::to_string(rows));
    } else if (digest_before && *digest_before != dataset.digest()) {
      add("dataset '" + name + "' had other columns or values: its digest was " + *digest_before + "; it is " +
          dataset.digest());
    }
  }
  return changes;
}

}  // namespace raytrain::detail
