// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/detail/file_names.hpp>
#include <raytrain/checkpoint/detail/sealed_json.hpp>
#include <raytrain/checkpoint/detail/slice_files.hpp>
#include <raytrain/checkpoint/detail/utc_time.hpp>
#include <raytrain/checkpoint/manifest.hpp>
#include <raytrain/checkpoint/rank_folder.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE void CheckpointStore::begin(StartId start, std::string run_id) {
  if (std::exchange(has_begun_, true)) {
    throw Error{Errc::invalid_call, "CheckpointStore::begin", "this store has begun with another start already",
                "let CheckpointConfig::store make a new store each time that it is called"};
  }
  start_ = std::move(start);
  run_id_ = std::move(run_id);
}

RAYTRAIN_INLINE auto CheckpointStore::stage(CheckpointDraft const& draft, Rank rank, CheckpointOrdinal checkpoint)
    -> CheckpointRef {
  auto const attempted =
      fmt::format("staging rank {}'s part of checkpoint {} of this start", rank.value, checkpoint.value + 1);
  if (!draft.is_filled()) {
    throw Error{Errc::invalid_call, attempted, "the draft is a replicated one whose files are not made yet",
                "call CheckpointDraft::fill first"};
  }
  draft.wait_until_complete();
  auto const files = draft.files_of(rank);
  for (auto const& [name, content] : files) {
    if (auto const problem = detail::file_name_problem(name)) {
      throw Error{Errc::invalid_report, attempted, "the file name '" + detail::shown_name(name) + "' " + *problem,
                  "shorten it"};
    }
  }
  auto const checksums = write_part({checkpoint, rank}, files);
  CheckpointRef ref{rank, checkpoint, {}, draft.metadata()};
  for (auto const& [name, content] : files) {
    auto const checksum = checksums.find(name);
    if (checksum == checksums.end() || !detail::is_xxh3_hex(checksum->second)) {
      throw Error{Errc::invalid_call, attempted,
                  "the store gave no checksum of '" + name + "' that is 32 hexadecimal digits in small letters",
                  "mend its CheckpointStore::write_part"};
    }
    ref.files.push_back({name, content.size(), checksum->second});
  }
  return ref;
}

RAYTRAIN_INLINE auto CheckpointStore::commit(CommitRequest const& request) -> CheckpointNumber {
  auto const existing = sorted_numbers();
  auto const newest = std::max(existing.empty() ? CheckpointNumber{} : existing.back(), last_number_);
  check_still_ours(request, newest);
  check_ranks(request);
  CheckpointNumber const number{newest.value + 1};
  auto files = merged_files(request);
  auto manifest = detail::write_sealed(manifest_of(request, number, files));
  attempted_ = number;
  publish({request.checkpoint, number, std::move(files), std::move(manifest)});
  last_number_ = number;
  try {
    discard(request.checkpoint);
  } catch (...) {
    // It is committed; `sweep` removes what is left.
  }
  return number;
}

RAYTRAIN_INLINE auto CheckpointStore::open(CheckpointNumber number) const -> Checkpoint {
  auto const files = checked_files(number);
  Checkpoint checkpoint{files};
  if (!run_id_.empty() && !checkpoint.run_id().empty() && checkpoint.run_id() != run_id_) {
    throw Error{Errc::foreign_run, files->attempted(),
                "it belongs to the run '" + checkpoint.run_id() + "', and this is the run '" + run_id_ + "'",
                "to begin with its state, load it by Checkpoint::from_directory in the training function"};
  }
  if (checkpoint.number() == number) return checkpoint;
  throw Error{Errc::corrupt_checkpoint, files->attempted(),
              checkpoint.number() == CheckpointNumber{}
                  ? "manifest.json is missing"
                  : "manifest.json is that of checkpoint " + std::to_string(checkpoint.number().value)};
}

RAYTRAIN_INLINE auto CheckpointStore::list() const -> std::vector<Checkpoint> {
  std::vector<Checkpoint> checkpoints;
  for (auto const number : sorted_numbers()) {
    try {
      checkpoints.push_back(open(number));
    } catch (Error const& error) {
      if (error.code() == Errc::io) throw;
    }
  }
  return checkpoints;
}

RAYTRAIN_INLINE auto CheckpointStore::newest_valid(
    std::function<void(CheckpointNumber number, std::string const& location, std::string_view reason)> const&
        on_skipped,
    std::optional<CheckpointNumber> kept) const -> std::optional<Checkpoint> {
  auto const candidates = sorted_numbers();
  std::string newest;
  for (auto number = candidates.rbegin(); number != candidates.rend(); ++number) {
    try {
      auto checkpoint = open(*number);
      if (kept == *number) {
        checkpoint.check_complete();
      } else {
        checkpoint.verify();
      }
      return checkpoint;
    } catch (Error const& error) {
      auto const where = checked_files(*number)->location();
      if (error.code() != Errc::corrupt_checkpoint && error.code() != Errc::not_found) {
        throw Error{error.code(), error.attempted(), error.happened(),
                    error.remedy() + "; or move '" + where + "' elsewhere to go on without it"};
      }
      auto const reason = error.code() == Errc::corrupt_checkpoint ? error.happened() : std::string{error.what()};
      on_skipped(*number, where, reason);
      if (newest.empty()) newest = fmt::format("checkpoint {}: {}", number->value, reason);
    }
  }
  if (candidates.empty()) return std::nullopt;
  throw Error{Errc::corrupt_checkpoint, "looking for a checkpoint to go on from in '" + location() + "'",
              fmt::format("there are {}, and each is damaged; {}", candidates.size(), newest),
              "copy one there that is whole, or start anew by RunConfig::resume = Resume::fresh"};
}

RAYTRAIN_INLINE auto CheckpointStore::checked_files(CheckpointNumber number) const
    -> std::shared_ptr<CheckpointFiles const> {
  if (auto files = files_of(number)) return files;
  throw Error{Errc::invalid_call, fmt::format("opening checkpoint {} in '{}'", number.value, location()),
              "CheckpointStore::files_of gave a null pointer", "let it give an object for every number"};
}

RAYTRAIN_INLINE auto CheckpointStore::sorted_numbers() const -> std::vector<CheckpointNumber> {
  auto all = numbers();
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

// Its number in the store, counted over all starts, is known only in the end.
RAYTRAIN_INLINE auto CheckpointStore::committing(CheckpointOrdinal checkpoint) -> std::string {
  return fmt::format("committing checkpoint {} of this start", checkpoint.value + 1);
}

// A lock can be lost: its file removed, or a file system of a network without locks.
RAYTRAIN_INLINE void CheckpointStore::check_still_ours(CommitRequest const& request, CheckpointNumber newest) const {
  if (run_id_.empty() || newest <= last_number_) return;
  auto const start = [&]() -> std::uint64_t {
    try {
      return open(newest).start();
    } catch (Error const& error) {
      if (error.code() == Errc::foreign_run) throw;
      return 0;
    }
  }();
  if (start < start_.number) return;
  if (start == start_.number && newest == attempted_) {
    throw Error{
        Errc::invalid_call, committing(request.checkpoint),
        fmt::format("'{}' is there, although publishing it has thrown", checked_files(newest)->location()),
        "mend CheckpointStore::publish, which throws where there is no checkpoint; the next start goes on from it"};
  }
  throw Error{Errc::invalid_call, committing(request.checkpoint),
              fmt::format("start {} of this run has committed '{}', and this is {}start {}", start,
                          checked_files(newest)->location(), start == start_.number ? "another " : "", start_.number),
              "train in one process at a time, and leave the file .lock in the run's folder alone"};
}

RAYTRAIN_INLINE void CheckpointStore::check_ranks(CommitRequest const& request) {
  auto const attempted = committing(request.checkpoint);
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

RAYTRAIN_INLINE auto CheckpointStore::merged_metadata(CommitRequest const& request)
    -> std::map<std::string, std::string> {
  std::map<std::string, std::string> merged;
  std::map<std::string, Rank> set_by;
  for (auto const& part : request.parts) {
    for (auto const& [key, value] : part.metadata) {
      auto const [entry, is_new] = merged.emplace(key, value);
      auto const first = set_by.emplace(key, part.rank).first->second;
      if (is_new || entry->second == value) continue;
      throw Error{Errc::rank_mismatch, committing(request.checkpoint),
                  fmt::format("metadata '{}' is '{}' on rank {} and '{}' on rank {}", key, entry->second, first.value,
                              value, part.rank.value),
                  "set it on one rank, or to the same value on all"};
    }
  }
  return merged;
}

RAYTRAIN_INLINE auto CheckpointStore::merged_files(CommitRequest const& request) -> Files {
  Files merged;
  for (auto const& part : request.parts) {
    for (auto const& file : part.files) {
      if (auto const problem = detail::file_name_problem(file.name)) {
        throw Error{Errc::invalid_report, committing(request.checkpoint),
                    fmt::format("rank {} names a file '{}', which {}", part.rank.value, detail::shown_name(file.name),
                                *problem)};
      }
      if (auto const* const clash = detail::find_clash(merged, file.name)) {
        throw Error{Errc::rank_mismatch, committing(request.checkpoint),
                    fmt::format("rank {} wrote the file '{}' and rank {} wrote '{}'", clash->second.rank.value,
                                clash->first, part.rank.value, file.name),
                    file.name.starts_with(rank_folder_name(part.rank) + "/")
                        ? "of a checkpoint that is reported again, report on one rank only the files that lie in no "
                          "rank's folder, since each rank adds its own"
                        : "write state that is the same on every rank by CheckpointDraft::replicated, and each rank's "
                          "own by CheckpointDraft::per_rank"};
      }
      merged.emplace(file.name, StagedFile{part.rank, file.size_bytes, file.xxh3});
    }
  }
  check_sharded_arrays(request);
  return merged;
}

RAYTRAIN_INLINE void CheckpointStore::check_sharded_arrays(CommitRequest const& request) {
  std::vector<FileEntry> files;
  for (auto const& part : request.parts) files.insert(files.end(), part.files.begin(), part.files.end());
  for (auto const& [array, slices] : detail::slice_files(std::move(files))) {
    auto const problem = detail::array_problem(slices);
    if (!problem) continue;
    throw Error{Errc::rank_mismatch, committing(request.checkpoint), "of the sharded array '" + array + "' " + *problem,
                "let CheckpointDraft::add_slice have each element on one rank, with the same type and total on all"};
  }
}

RAYTRAIN_INLINE auto CheckpointStore::manifest_of(CommitRequest const& request, CheckpointNumber number,
                                                  Files const& files) const -> Manifest {
  Manifest manifest;
  manifest.metadata = merged_metadata(request);
  for (auto const& [name, file] : files) manifest.files.emplace(name, StoredFile{file.size_bytes, file.xxh3});
  manifest.number = number.value;
  if (!run_id_.empty()) manifest.run_id = run_id_;
  manifest.start = start_.number;
  manifest.training_iteration = request.training_iteration;
  manifest.time_total_s = request.time_total_s;
  manifest.world_size = request.world_size.value;
  manifest.training_iterations = request.training_iterations;
  manifest.kept_reports = request.kept_reports;
  manifest.run_metadata = request.run_metadata;
  manifest.seed = request.seed;
  manifest.dataset_rows = request.dataset_rows;
  manifest.dataset_digests = request.dataset_digests;
  for (auto const& part : request.parts) {
    if (part.rank != Rank{0}) continue;
    manifest.batch_sizes = part.batch_sizes;
    manifest.positions = part.positions;
    manifest.orders = part.orders;
  }
  manifest.handed_over = request.handed_over;
  manifest.created_at = detail::utc_now();
  manifest.metrics = request.metrics;
  return manifest;
}

}  // namespace raytrain
