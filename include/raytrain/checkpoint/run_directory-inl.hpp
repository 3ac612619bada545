// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <ranges>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/detail/directory_lock.hpp>
#include <raytrain/checkpoint/detail/durable_files.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/checkpoint/detail/sealed_json.hpp>
#include <raytrain/checkpoint/detail/utc_time.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto open_store(MakeCheckpointStore const& make, std::filesystem::path const& run_path,
                                detail::FileSystem& files) -> std::shared_ptr<CheckpointStore> {
  if (!make) return std::make_shared<DirectoryStore>(run_path / checkpoints_folder_name, files);
  if (auto store = make(run_path)) return store;
  throw Error{Errc::invalid_config, "CheckpointConfig::store",
              "made no store for the run in '" + run_path.string() + "'",
              "return a std::shared_ptr to one, or leave it unset for a directory in the run's folder"};
}

RAYTRAIN_INLINE RunDirectory::RunDirectory(RunStart start, detail::FileSystem& files)
    : path_{std::filesystem::absolute(start.storage_path / start.name).lexically_normal()},
      files_{&files},
      store_{open_store(start.make_store, path_, files)} {
  if (start.name.empty()) {
    throw Error{Errc::invalid_config, "RunConfig::name", "must not be empty", "name the run"};
  }
  start.program = to_utf8(start.program);
  create_directories();
  open(std::move(start));
}

RAYTRAIN_INLINE auto RunDirectory::report_fields() const noexcept -> std::vector<std::string> const& {
  return record_.identity.report_fields;
}

RAYTRAIN_INLINE auto RunDirectory::begin_message(std::optional<Checkpoint> const& checkpoint) const -> Begin {
  auto const number = checkpoint ? std::optional{checkpoint->number()} : std::nullopt;
  return {.name = name(),
          .run_path = path_.string(),
          .run_id = run_id(),
          .start = record_.starts,
          .start_id = start_id_,
          .started_at = record_.started_at,
          .checkpoint = number,
          .report_fields = report_fields(),
          .metadata = record_.metadata.value_or(std::map<std::string, std::string>{})};
}

RAYTRAIN_INLINE void RunDirectory::record_start() {
  if (store_->create()) created_.add([store = store_] { store->clear(); });
  if (is_new_) created_.add([files = files_, path = record_path()] { (void)files->remove_file(path); });
  write_record();
  created_.keep();
}

RAYTRAIN_INLINE void RunDirectory::record_report_fields(std::vector<std::string> fields) {
  check_known_fields({.known = report_fields(), .reported = fields}, path_);
  if (fields == report_fields()) return;
  record_.identity.report_fields = std::move(fields);
  write_record();
}

RAYTRAIN_INLINE void RunDirectory::record_checkpoint() {
  if (record_.has_checkpoints.value_or(false)) return;
  record_.has_checkpoints = true;
  write_record();
}

RAYTRAIN_INLINE auto RunDirectory::damaged_checkpoints() const -> std::set<CheckpointNumber> {
  return damaged_checkpoints_in(record_);
}

RAYTRAIN_INLINE void RunDirectory::record_damaged_checkpoints(std::set<CheckpointNumber> const& numbers) {
  if (numbers == damaged_checkpoints()) return;
  auto& damaged = record_.damaged.emplace();
  for (auto const number : numbers) damaged.push_back(number.value);
  write_record();
}

RAYTRAIN_INLINE void RunDirectory::check_none_lost() const {
  if (!record_.has_checkpoints.value_or(false)) return;
  throw Error{Errc::corrupt_checkpoint, "going on with the run in '" + path_.string() + "'",
              "it had checkpoints by its run.json, and there are none in '" + store_->location() + "'",
              "copy one back there, or start anew by RunConfig::resume = Resume::fresh"};
}

RAYTRAIN_INLINE void RunDirectory::record_workers(WorldSize world_size, std::vector<std::string> hosts) {
  if (hosts == record_.hosts && world_size.value == record_.world_size) return;
  record_.world_size = world_size.value;
  record_.hosts = std::move(hosts);
  write_record();
}

RAYTRAIN_INLINE void RunDirectory::check_in_place() const {
  if (lock_->is_at(path_)) return;
  throw Error{Errc::io, "going on with the run in '" + path_.string() + "'",
              "its folder was moved, removed or replaced while this start trained in it, and nothing more is committed",
              "leave a run's folder alone while it trains; where it was moved to, the next start can go on"};
}

RAYTRAIN_INLINE void RunDirectory::set_state(std::string state, std::string error) {
  record_.state = std::move(state);
  record_.error = to_utf8(error);
  write_record();
}

RAYTRAIN_INLINE RunDirectory::Created::~Created() {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    try {
      (*step)();
    } catch (...) {
      continue;  // what made the start fail is to be told
    }
  }
}

RAYTRAIN_INLINE void RunDirectory::write_record() {
  check_in_place();
  detail::replace_file(*files_, record_path(), detail::write_sealed(record_));
}

RAYTRAIN_INLINE void RunDirectory::create_directories() {
  auto const missing = detail::missing_directories(path_);
  auto const existing = missing.empty() ? path_ : missing.front().parent_path();
  if (detail::type_of(existing) != std::filesystem::file_type::directory) {
    throw Error{Errc::invalid_config, "RunConfig::storage_path", "'" + existing.string() + "' is not a folder",
                "name a folder, or one that can be created"};
  }
  for (auto const& path : missing) {
    if (!detail::make_directory(*files_, path)) continue;
    created_.add([files = files_, path] { (void)files->remove_directory(path); });
    detail::sync_directory(*files_, path.parent_path());
  }
}

RAYTRAIN_INLINE void RunDirectory::open(RunStart start) {
  auto const lock_path = path_ / ".lock";
  lock_.emplace(lock_path);
  if (lock_->is_new()) created_.add([files = files_, lock_path] { (void)files->remove_file(lock_path); });

  std::optional<RunRecord> found;
  try {
    found = read_run_record(path_);
  } catch (Error const& error) {
    auto const is_damaged = error.code() == Errc::foreign_run;
    if (error.code() != Errc::not_found && !(is_damaged && start.fresh)) throw;
  }
  // That file is there when something came into the way of deleting a run.
  completes_deletion_ = detail::link_type_of(deleting_path()) != std::filesystem::file_type::not_found;
  auto const deletes = start.fresh || completes_deletion_;
  if (deletes) {
    check_only_ours(start.begins_from);
  } else {
    store_->check_usable();
  }
  if (found && !deletes) {
    check_identity(*found, start);
    record_ = *found;
    previous_state_ = found->state;
  }
  if (found) record_.starts = found->starts;
  if (!found && !deletes) adopt_checkpoints(start);
  ++record_.starts;
  record_.identity.program = std::move(start.program);
  record_.identity.backend = std::move(start.backend);
  record_.state = "running";
  record_.error.clear();
  record_.world_size = start.world_size.value;
  record_.seed = start.seed;
  record_.metadata = std::move(start.metadata);
  record_.raytrain_version = std::move(start.raytrain_version);
  record_.hosts = start.hosts.empty() ? std::vector{host_name()} : std::move(start.hosts);
  record_.started_at = detail::utc_now();
  if (!record_.run_id) {
    record_.run_id = fmt::format("{} {} {:08x}", to_utf8(start.name), record_.started_at, std::random_device{}());
  }
  record_.format = RunRecord::newest_format;
  is_new_ = !found;
  if (deletes) delete_run();
  store_->begin(this->start(), run_id());
}

// There is no record. Where it was lost, this is the run that the checkpoints name, and can go on from them. The run
// has another name where two runs are given one store.
RAYTRAIN_INLINE void RunDirectory::adopt_checkpoints(RunStart const& start) {
  auto const numbers = store_->numbers();
  for (auto const number : std::views::reverse(numbers)) {
    try {
      auto const checkpoint = store_->open(number);
      if (checkpoint.run_id().empty()) continue;
      if (start.make_store != nullptr && !checkpoint.run_id().starts_with(to_utf8(start.name) + ' ')) {
        throw Error{Errc::foreign_run, "opening the run in '" + path_.string() + "'",
                    "'" + checkpoint.location() + "' belongs to the run '" + checkpoint.run_id() +
                        "', and no run.json here says that this is that run",
                    "give each run a store of its own, as CheckpointConfig::store is told the run's path; or copy that "
                    "run's run.json here"};
      }
      record_.run_id = checkpoint.run_id();
      record_.starts = checkpoint.start();
      return;
    } catch (Error const& error) {
      if (error.code() == Errc::io || error.code() == Errc::foreign_run) throw;
    }
  }
}

RAYTRAIN_INLINE void RunDirectory::check_identity(RunRecord const& found, RunStart const& start) const {
  if (found.identity.program == start.program && found.identity.backend == start.backend) return;
  throw Error{Errc::foreign_run, "opening the run in '" + path_.string() + "'",
              "it belongs to " + to_string(found.identity) + ", and this is program '" + start.program +
                  "', backend '" + start.backend + "'",
              "choose another RunConfig::name, or delete that run by RunConfig::resume = Resume::fresh"};
}

RAYTRAIN_INLINE void RunDirectory::check_only_ours(std::string const& begins_from) const {
  auto const without_links = [](std::filesystem::path const& path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(path, ignored).string() + '/';
  };
  for (auto const& place : {path_.string(), store_->location()}) {
    if (begins_from.empty() || !without_links(begins_from).starts_with(without_links(place))) continue;
    throw Error{Errc::invalid_config, "deleting the run in '" + path_.string() + "' (Resume::fresh)",
                "RunConfig::resume_from_checkpoint names '" + begins_from + "', which would be deleted with it",
                "choose another RunConfig::name for the run that begins there"};
  }
  store_->check_clearable();
  for (auto const name : {progress_file_name, csv_file_name}) {
    if (detail::link_type_of(path_ / name) != std::filesystem::file_type::directory) continue;
    throw Error{Errc::foreign_run, "deleting the run in '" + path_.string() + "' (Resume::fresh)",
                "'" + (path_ / name).string() + "' is a folder", "move it elsewhere"};
  }
}

// From the first step on, which is a file that says so, the run is as good as deleted: a later start completes what is
// left to do.
RAYTRAIN_INLINE void RunDirectory::delete_run() {
  if (detail::link_type_of(deleting_path()) == std::filesystem::file_type::not_found) {
    (void)detail::write_file(*files_, deleting_path(), {});
    detail::sync_directory(*files_, path_);
  }
  store_->clear();
  for (auto const name : {progress_file_name, csv_file_name, run_record_name}) {
    detail::remove_file(*files_, path_ / name);
  }
  detail::sync_directory(*files_, path_);
  detail::remove_file(*files_, deleting_path());
}

}  // namespace raytrain
