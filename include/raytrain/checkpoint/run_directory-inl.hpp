// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/detail/directory_lock.hpp>
#include <raytrain/checkpoint/detail/durable_files.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/detail/io_error.hpp>
#include <raytrain/checkpoint/detail/sealed_json.hpp>
#include <raytrain/checkpoint/detail/store_names.hpp>
#include <raytrain/checkpoint/detail/utc_time.hpp>
#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/host_name.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/message/utf8.hpp>

namespace raytrain {

RAYTRAIN_INLINE RunDirectory::RunDirectory(RunStart start, detail::FileSystem& files)
    : path_{std::filesystem::absolute(start.storage_path / start.name).lexically_normal()},
      files_{&files},
      created_{files} {
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

RAYTRAIN_INLINE auto RunDirectory::begin_with(std::optional<Checkpoint> const& checkpoint) const -> Begin {
  auto const path = checkpoint ? std::optional{checkpoint->path().string()} : std::nullopt;
  return {name(), path_.string(), attempt(), start_id_, record_.started_at, path, report_fields()};
}

RAYTRAIN_INLINE void RunDirectory::record_start() {
  if (detail::make_directory(*files_, checkpoints_path())) created_.add(checkpoints_path());
  if (is_new_) created_.add(record_path());
  write_record();
  created_.keep();
}

RAYTRAIN_INLINE void RunDirectory::record_report_fields(std::vector<std::string> fields) {
  check_known_fields(report_fields(), fields, path_);
  if (fields == report_fields()) return;
  record_.identity.report_fields = std::move(fields);
  write_record();
}

RAYTRAIN_INLINE void RunDirectory::record_checkpoint() {
  if (record_.has_checkpoints.value_or(false)) return;
  record_.has_checkpoints = true;
  write_record();
}

RAYTRAIN_INLINE void RunDirectory::check_none_lost() const {
  if (!record_.has_checkpoints.value_or(false)) return;
  throw Error{Errc::corrupt_checkpoint, "going on with the run in '" + path_.string() + "'",
              "it had checkpoints by its run.json, and there are none in '" + checkpoints_path().string() + "'",
              "copy one back there, or start anew by RunConfig::resume = Resume::fresh"};
}

RAYTRAIN_INLINE void RunDirectory::record_hosts(std::vector<std::string> hosts) {
  if (hosts == record_.hosts) return;
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

RAYTRAIN_INLINE auto RunDirectory::Created::operator=(Created&& other) noexcept -> Created& {
  std::swap(files_, other.files_);
  std::swap(paths_, other.paths_);
  return *this;
}

RAYTRAIN_INLINE RunDirectory::Created::~Created() {
  for (auto path = paths_.rbegin(); path != paths_.rend(); ++path) {
    if (files_->remove_file(*path) != 0) (void)files_->remove_directory(*path);
  }
}

RAYTRAIN_INLINE void RunDirectory::write_record() {
  check_in_place();
  detail::replace_file(*files_, record_path(), detail::write_sealed(record_));
}

RAYTRAIN_INLINE void RunDirectory::create_directories() {
  std::vector<std::filesystem::path> missing;
  auto existing = path_;
  std::error_code problem;
  auto type = std::filesystem::status(existing, problem).type();
  while (type == std::filesystem::file_type::not_found && existing.has_relative_path()) {
    missing.push_back(existing);
    existing = existing.parent_path();
    type = std::filesystem::status(existing, problem).type();
  }
  if (type == std::filesystem::file_type::none) throw detail::io_error("looking at", existing, problem.value());
  if (type != std::filesystem::file_type::directory) {
    throw Error{Errc::invalid_config, "RunConfig::storage_path", "'" + existing.string() + "' is not a folder",
                "name a folder, or one that can be created"};
  }
  for (auto path = missing.rbegin(); path != missing.rend(); ++path) {
    if (!detail::make_directory(*files_, *path)) continue;
    created_.add(*path);
    detail::sync_directory(*files_, path->parent_path());
  }
}

RAYTRAIN_INLINE void RunDirectory::open(RunStart start) {
  auto const lock_path = path_ / ".lock";
  lock_.emplace(lock_path);
  if (lock_->is_new()) created_.add(lock_path);

  std::optional<RunRecord> found;
  try {
    found = read_run_record(path_);
  } catch (Error const& error) {
    auto const is_damaged = error.code() == Errc::foreign_run;
    if (error.code() != Errc::not_found && !(is_damaged && start.fresh)) throw;
  }
  check_checkpoints_folder(start.fresh);
  if (start.fresh) check_only_ours();
  // That folder is there when a crash came into the way of deleting a run.
  auto const deletes = start.fresh || detail::link_type_of(trash_path()) != std::filesystem::file_type::not_found;
  if (found && !deletes) {
    check_identity(*found, start);
    record_ = *found;
    previous_state_ = found->state;
  }
  if (found) record_.attempts = found->attempts;
  if (!found && !deletes) adopt_checkpoints();
  ++record_.attempts;
  record_.identity.program = std::move(start.program);
  record_.identity.backend = std::move(start.backend);
  record_.state = "running";
  record_.error.clear();
  record_.world_size = start.world_size.value;
  record_.seed = start.seed;
  record_.raytrain_version = std::move(start.raytrain_version);
  record_.hosts = start.hosts.empty() ? std::vector{host_name()} : std::move(start.hosts);
  record_.started_at = detail::utc_now();
  if (!record_.run_id) {
    record_.run_id = fmt::format("{} {} {:08x}", to_utf8(start.name), record_.started_at, std::random_device{}());
  }
  record_.format = RunRecord::newest_format;
  is_new_ = !found;
  if (deletes) delete_run(start.fresh);
}

RAYTRAIN_INLINE void RunDirectory::adopt_checkpoints() {
  std::vector<std::uint64_t> numbers;
  for (auto const& name : detail::names_in(checkpoints_path())) {
    if (auto const number = detail::parse_checkpoint(name)) numbers.push_back(*number);
  }
  std::ranges::sort(numbers, std::ranges::greater{});
  for (auto const number : numbers) {
    try {
      auto const checkpoint = Checkpoint::from_directory(checkpoints_path() / detail::checkpoint_name(number));
      if (checkpoint.run_id().empty()) continue;
      record_.run_id = checkpoint.run_id();
      record_.attempts = checkpoint.generation();
      return;
    } catch (Error const& error) {
      if (error.code() == Errc::io) throw;
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

RAYTRAIN_INLINE void RunDirectory::check_checkpoints_folder(bool fresh) const {
  auto const path = checkpoints_path();
  auto const is_link = detail::link_type_of(path) == std::filesystem::file_type::symlink;
  auto const type = detail::type_of(path);
  if (type == std::filesystem::file_type::directory) return;
  if (type == std::filesystem::file_type::not_found && (!is_link || fresh)) return;
  throw Error{Errc::io, "opening the run in '" + path_.string() + "'",
              "'" + path.string() + "' is " + (is_link ? "a link that leads to no folder" : "not a folder"),
              is_link ? "mount or create the folder it leads to, or remove the link" : "move it elsewhere"};
}

RAYTRAIN_INLINE void RunDirectory::check_only_ours() const {
  for (auto const& name : detail::names_in(checkpoints_path())) {
    if (detail::parse_checkpoint(name) || detail::parse_leftover(name)) continue;
    throw Error{Errc::foreign_run, "deleting the run in '" + path_.string() + "' (Resume::fresh)",
                "'" + (checkpoints_path() / name).string() + "' is not raytrain's",
                "move it elsewhere, or choose another RunConfig::name"};
  }
  for (auto const name : {progress_file_name, csv_file_name}) {
    if (detail::link_type_of(path_ / name) != std::filesystem::file_type::directory) continue;
    throw Error{Errc::foreign_run, "deleting the run in '" + path_.string() + "' (Resume::fresh)",
                "'" + (path_ / name).string() + "' is a folder", "move it elsewhere"};
  }
}

RAYTRAIN_INLINE void RunDirectory::delete_run(bool fresh) {
  auto const trash = trash_path();
  if (fresh) {
    if (detail::link_type_of(checkpoints_path()) == std::filesystem::file_type::not_found) {
      (void)detail::make_directory(*files_, trash);
    } else {
      detail::remove_tree(*files_, trash);
      detail::rename(*files_, checkpoints_path(), trash);
    }
    detail::sync_directory(*files_, path_);
  }
  for (auto const name : {progress_file_name, csv_file_name, run_record_name}) {
    detail::remove_file(*files_, path_ / name);
  }
  detail::remove_tree(*files_, trash);
}

}  // namespace raytrain
