// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/detail/durable_files.hpp>
#include <raytrain/checkpoint/detail/file_name.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/detail/io_error.hpp>
#include <raytrain/checkpoint/detail/sealed_json.hpp>
#include <raytrain/checkpoint/detail/store_names.hpp>
#include <raytrain/checkpoint/detail/utc_time.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/checkpoint/generation.hpp>
#include <raytrain/checkpoint/manifest.hpp>
#include <raytrain/checkpoint/retention.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto DirectoryStore::path_of(CheckpointNumber number) const -> std::filesystem::path {
  return directory_ / detail::checkpoint_name(number.value);
}

RAYTRAIN_INLINE auto DirectoryStore::list() const -> std::vector<CheckpointInfo> {
  std::vector<CheckpointInfo> infos;
  for (auto const number : numbers()) {
    try {
      auto const checkpoint = open(number);
      infos.push_back({number, checkpoint.path(), checkpoint.training_iteration(), checkpoint.metrics()});
    } catch (Error const&) {
      continue;
    }
  }
  return infos;
}

RAYTRAIN_INLINE auto DirectoryStore::newest_valid(
    std::function<void(std::filesystem::path const& path, std::string_view reason)> const& on_skipped) const
    -> std::optional<Checkpoint> {
  auto const candidates = numbers();
  std::string newest;
  for (auto number = candidates.rbegin(); number != candidates.rend(); ++number) {
    try {
      auto checkpoint = open(*number);
      checkpoint.verify();
      return checkpoint;
    } catch (Error const& error) {
      if (error.code() != Errc::corrupt_checkpoint && error.code() != Errc::not_found) {
        throw Error{error.code(), error.attempted(), error.happened(),
                    error.remedy() + "; or move '" + path_of(*number).string() + "' elsewhere to go on without it"};
      }
      auto const reason = error.code() == Errc::corrupt_checkpoint ? error.happened() : std::string{error.what()};
      on_skipped(path_of(*number), reason);
      if (newest.empty()) newest = detail::checkpoint_name(number->value) + ": " + reason;
    }
  }
  if (candidates.empty()) return std::nullopt;
  throw Error{Errc::corrupt_checkpoint, "looking for a checkpoint to go on from in '" + directory_.string() + "'",
              fmt::format("there are {}, and each is damaged; {}", candidates.size(), newest),
              "copy one there that is whole, or start anew by RunConfig::resume = Resume::fresh"};
}

RAYTRAIN_INLINE void DirectoryStore::remove(CheckpointNumber number) {
  auto const trash = directory_ / detail::trash_name({generation_.number, number.value});
  if (detail::type_of(path_of(number)) == std::filesystem::file_type::not_found) {
    throw Error{Errc::not_found, "removing checkpoint " + std::to_string(number.value),
                "there is no '" + path_of(number).string() + "'"};
  }
  detail::remove_tree(files_, trash);
  detail::rename(files_, path_of(number), trash);
  detail::sync_directory(files_, directory_);
  detail::remove_tree(files_, trash);
}

RAYTRAIN_INLINE void DirectoryStore::sweep() {
  for (auto const& name : detail::names_in(directory_)) {
    auto const leftover = detail::parse_leftover(name);
    if (leftover && leftover->generation < generation_.number) detail::remove_tree(files_, directory_ / name);
  }
}

RAYTRAIN_INLINE auto DirectoryStore::staging(CheckpointOrdinal checkpoint) const -> std::filesystem::path {
  return directory_ / detail::staging_name({generation_.number, checkpoint.value}, generation_.id);
}

RAYTRAIN_INLINE auto DirectoryStore::numbers() const -> std::vector<CheckpointNumber> {
  std::vector<CheckpointNumber> numbers;
  for (auto const& name : detail::names_in(directory_)) {
    if (auto const number = detail::parse_checkpoint(name)) numbers.push_back(CheckpointNumber{*number});
  }
  std::ranges::sort(numbers);
  return numbers;
}

RAYTRAIN_INLINE auto DirectoryStore::open(CheckpointNumber number) const -> Checkpoint {
  auto checkpoint = Checkpoint::from_directory(path_of(number));
  auto const attempted = "reading checkpoint '" + path_of(number).string() + "'";
  if (!run_id_.empty() && !checkpoint.run_id().empty() && checkpoint.run_id() != run_id_) {
    throw Error{Errc::foreign_run, attempted,
                "it belongs to the run '" + checkpoint.run_id() + "', and this is the run '" + run_id_ + "'",
                "to begin with its state, load it by Checkpoint::from_directory in the training function"};
  }
  if (checkpoint.number() == number.value) return checkpoint;
  throw Error{Errc::corrupt_checkpoint, attempted,
              checkpoint.number() == 0 ? "manifest.json is missing"
                                       : "manifest.json is that of checkpoint " + std::to_string(checkpoint.number())};
}

RAYTRAIN_INLINE void DirectoryStore::make_folders(std::filesystem::path const& root, std::string const& name,
                                                  std::set<std::string>& made) {
  for (auto slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    auto folder = name.substr(0, slash);
    if (made.contains(folder)) continue;
    (void)detail::make_directory(files_, root / folder);
    made.insert(std::move(folder));
  }
}

RAYTRAIN_INLINE auto DirectoryStore::committing(CommitRequest const& request) -> std::string {
  return fmt::format("committing checkpoint {} of this start", request.checkpoint.value + 1);
}

RAYTRAIN_INLINE auto scored(std::vector<CheckpointInfo> const& infos, CheckpointConfig const& config)
    -> std::vector<ScoredCheckpoint> {
  std::vector<ScoredCheckpoint> checkpoints;
  for (auto const& info : infos) checkpoints.push_back({info.number, info.metrics.number(config.score_attribute)});
  return checkpoints;
}

RAYTRAIN_INLINE auto DirectoryStore::stage(CheckpointDraft const& draft, Rank rank, CheckpointOrdinal checkpoint)
    -> CheckpointRef {
  auto const attempted =
      fmt::format("staging rank {}'s part of checkpoint {} of this start", rank.value, checkpoint.value + 1);
  if (!draft.is_materialized()) {
    throw Error{Errc::invalid_call, attempted, "the draft is a replicated one whose files are not made yet",
                "call CheckpointDraft::materialize first"};
  }
  auto const folder = staging(checkpoint) / rank_folder_name(rank);
  CheckpointRef ref{rank, checkpoint, {}, draft.metadata()};
  (void)detail::make_directory(files_, folder.parent_path());
  if (!detail::make_directory(files_, folder)) {
    // Left by a run whose record was lost, so that generations began anew.
    detail::remove_tree(files_, folder);
    (void)detail::make_directory(files_, folder);
  }
  try {
    std::set<std::string> made;
    for (auto const& [short_name, content] : draft.files()) {
      auto const name = draft.is_per_rank() ? rank_folder_name(rank) + "/" + short_name : short_name;
      if (auto const problem = detail::file_name_problem(name)) {
        throw Error{Errc::invalid_report, attempted, "the file name '" + detail::shown_name(name) + "' " + *problem,
                    "shorten it"};
      }
      make_folders(folder, name, made);
      auto hash = detail::write_file(files_, folder / name, *content);
      ref.files.push_back({name, content->size(), std::move(hash)});
    }
  } catch (Error const&) {
    detail::try_remove_tree(files_, folder);
    throw;
  }
  return ref;
}

RAYTRAIN_INLINE void DirectoryStore::check_ranks(CommitRequest const& request) {
  auto const attempted = committing(request);
  std::vector<int> parts(request.world_size.value);
  for (auto const& part : request.parts) {
    if (part.checkpoint != request.checkpoint) {
      throw Error{Errc::rank_mismatch, attempted,
                  fmt::format("rank {}'s part belongs to checkpoint {}", part.rank.value, part.checkpoint.value + 1)};
    }
    if (part.rank.value >= parts.size()) {
      throw Error{Errc::rank_mismatch, attempted,
                  fmt::format("there is a part of rank {} in a world of {}", part.rank.value, parts.size())};
    }
    ++parts[part.rank.value];
  }
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank] == 1) continue;
    throw Error{Errc::rank_mismatch, attempted,
                fmt::format("rank {} gave {} parts of it instead of one", rank, parts[rank]),
                "call report with a checkpoint equally often on every rank"};
  }
}

RAYTRAIN_INLINE auto DirectoryStore::merged_metadata(CommitRequest const& request)
    -> std::map<std::string, std::string> {
  std::map<std::string, std::string> merged;
  std::map<std::string, Rank> set_by;
  for (auto const& part : request.parts) {
    for (auto const& [key, value] : part.metadata) {
      auto const [place, is_new] = merged.emplace(key, value);
      auto const first = set_by.emplace(key, part.rank).first->second;
      if (is_new || place->second == value) continue;
      throw Error{Errc::rank_mismatch, committing(request),
                  fmt::format("metadata '{}' is '{}' on rank {} and '{}' on rank {}", key, place->second, first.value,
                              value, part.rank.value),
                  "set it on one rank, or to the same value on all"};
    }
  }
  return merged;
}

RAYTRAIN_INLINE auto DirectoryStore::merged_files(CommitRequest const& request) -> Parts {
  Parts merged;
  for (auto const& part : request.parts) {
    for (auto const& file : part.files) {
      if (auto const problem = detail::file_name_problem(file.name)) {
        throw Error{Errc::invalid_report, committing(request),
                    fmt::format("rank {} names a file '{}', which {}", part.rank.value, detail::shown_name(file.name),
                                *problem)};
      }
      if (auto const* const clash = detail::find_clash(merged, file.name)) {
        throw Error{Errc::rank_mismatch, committing(request),
                    fmt::format("rank {} wrote the file '{}' and rank {} wrote '{}'", clash->second.rank.value,
                                clash->first, part.rank.value, file.name),
                    file.name.starts_with(rank_folder_name(part.rank) + "/")
                        ? "of a checkpoint that is reported again, report on one rank only the files that lie in no "
                          "rank's folder, since each rank adds its own"
                        : "write state that is the same on every rank by CheckpointDraft::replicated, and each rank's "
                          "own by CheckpointDraft::per_rank"};
      }
      merged.emplace(file.name, Part{part.rank, &file});
    }
  }
  return merged;
}

RAYTRAIN_INLINE void DirectoryStore::check_staged(CommitRequest const& request, Parts const& parts) const {
  for (auto const& [name, part] : parts) {
    auto const path = staging(request.checkpoint) / rank_folder_name(part.rank) / name;
    std::error_code problem;
    auto const size = std::filesystem::file_size(path, problem);
    if (!problem && size == part.file->size_bytes) continue;
    auto const attempted = committing(request);
    if (problem && problem != std::errc::no_such_file_or_directory) {
      throw detail::io_error("reading the size of", path, problem.value());
    }
    throw Error{Errc::invalid_call, attempted,
                problem ? fmt::format("file '{}' of rank {} was not staged in generation {} of this run", name,
                                      part.rank.value, generation_.number)
                        : fmt::format("file '{}' of rank {} has {} bytes instead of the {} that were staged", name,
                                      part.rank.value, size, part.file->size_bytes),
                "a worker of an earlier start has no say in this one: end it"};
  }
}

RAYTRAIN_INLINE void DirectoryStore::check_still_ours(CommitRequest const& request, CheckpointNumber newest) const {
  if (run_id_.empty() || newest <= last_number_) return;
  auto const generation = [&]() -> std::uint64_t {
    try {
      return open(newest).generation();
    } catch (Error const&) {
      return 0;
    }
  }();
  if (generation <= generation_.number) return;
  throw Error{Errc::invalid_call, committing(request),
              fmt::format("start {} of this run has committed '{}', and this is start {}", generation,
                          path_of(newest).string(), generation_.number),
              "train in one process at a time, and leave the file .lock in the run's folder alone"};
}

RAYTRAIN_INLINE auto DirectoryStore::commit(CommitRequest const& request) -> Checkpoint {
  auto const existing = numbers();
  auto const newest = std::max(existing.empty() ? CheckpointNumber{} : existing.back(), last_number_);
  check_still_ours(request, newest);
  check_ranks(request);
  auto const parts = merged_files(request);
  Manifest manifest;
  manifest.metadata = merged_metadata(request);
  check_staged(request, parts);

  auto const staged = staging(request.checkpoint);
  auto const merged = staged / detail::merged_name;
  // Parts without a file are not staged, so that the folder may be missing.
  (void)detail::make_directory(files_, staged);
  detail::remove_tree(files_, merged);
  (void)detail::make_directory(files_, merged);
  std::set<std::string> folders;
  for (auto const& [name, part] : parts) {
    make_folders(merged, name, folders);
    detail::rename(files_, staged / rank_folder_name(part.rank) / name, merged / name);
    manifest.files.emplace(name, StoredFile{part.file->size_bytes, part.file->xxh3});
  }

  manifest.number = newest.value + 1;
  if (!run_id_.empty()) manifest.run_id = run_id_;
  manifest.generation = generation_.number;
  manifest.training_iteration = request.training_iteration;
  manifest.time_total_s = request.time_total_s;
  manifest.world_size = request.world_size.value;
  manifest.training_iterations = request.training_iterations;
  manifest.kept_reports = request.kept_reports;
  manifest.seed = request.seed;
  manifest.dataset_rows = request.dataset_rows;
  manifest.dataset_digests = request.dataset_digests;
  for (auto const& part : request.parts) {
    if (part.rank == Rank{0}) manifest.batch_sizes = part.batch_sizes;
  }
  manifest.created_at = detail::utc_now();
  manifest.metrics = request.metrics;
  (void)detail::write_file(files_, merged / detail::manifest_name, bytes_of(detail::write_sealed(manifest)));
  for (auto const& folder : folders) detail::sync_directory(files_, merged / folder);
  detail::sync_directory(files_, merged);

  auto const path = path_of(CheckpointNumber{manifest.number});
  detail::rename(files_, merged, path);
  try {
    detail::sync_directory(files_, directory_);
  } catch (Error const&) {
    (void)files_.rename(path, merged);
    throw;
  }
  last_number_ = CheckpointNumber{manifest.number};
  discard(request.checkpoint);
  return Checkpoint::from_directory(path);
}

}  // namespace raytrain
