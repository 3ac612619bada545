// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/detail/archive.hpp>
#include <raytrain/checkpoint/detail/durable_files.hpp>
#include <raytrain/checkpoint/detail/file_name.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/checkpoint/manifest.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// A directory that holds a state of training, by value: copies name the same directory, and none of them owns it.
///
/// A committed one has a manifest, by which every read is verified. One that a user filled has none: then there are no
/// numbers, metrics and metadata, and whatever lies in it is taken as it is.
///
/// Threads: every function from any thread.
class Checkpoint {
 public:
  /// Errors: `not_found` without such a directory; `corrupt_checkpoint` when its manifest is not as it was written;
  /// `io` when it cannot be read.
  [[nodiscard]] static auto from_directory(std::filesystem::path const& directory) -> Checkpoint {
    Checkpoint checkpoint{std::filesystem::absolute(directory).lexically_normal()};
    checkpoint.check_directory();
    if (checkpoint.is_file(detail::manifest_name)) {
      checkpoint.manifest_ = std::make_shared<Manifest const>(detail::read_manifest(checkpoint.path_));
    }
    return checkpoint;
  }

  /// Writes what `to_bytes` gave into a directory that is empty or yet to be created, and removes it after a failure.
  ///
  /// Errors: `corrupt_checkpoint` for bytes that are not such, before anything is created; `io`.
  [[nodiscard]] static auto from_bytes(BytesView bytes, std::filesystem::path const& directory) -> Checkpoint;

  [[nodiscard]] auto path() const noexcept -> std::filesystem::path const& { return path_; }
  /// The same as `path`, under Ray Train's name.
  [[nodiscard]] auto as_directory() const noexcept -> std::filesystem::path const& { return path_; }

  /// Position among the run's checkpoints, from 1; 0 if it was never committed.
  [[nodiscard]] auto number() const noexcept -> std::uint64_t { return manifest_->number; }
  /// The run that wrote it, as `run_id` in its run.json; empty if it was never committed, or by a version that did not
  /// record it.
  [[nodiscard]] auto run_id() const -> std::string { return manifest_->run_id.value_or(""); }
  /// Number of the start that wrote it, from 1; 0 if it was never committed.
  [[nodiscard]] auto generation() const noexcept -> std::uint64_t { return manifest_->generation; }
  /// Rank 0's reports until this one; 0 if it was never committed.
  [[nodiscard]] auto training_iteration() const noexcept -> std::uint64_t { return manifest_->training_iteration; }
  /// That rank's reports until this one; rank 0's if there was no such rank.
  [[nodiscard]] auto training_iteration(Rank rank) const noexcept -> std::uint64_t {
    auto const& all = manifest_->training_iterations;
    return all && rank.value < all->size() ? (*all)[rank.value] : training_iteration();
  }
  /// Reports of each rank that the run's history had until this one; none if it was never committed.
  [[nodiscard]] auto kept_reports() const noexcept -> std::optional<std::vector<std::uint64_t>> const& {
    return manifest_->kept_reports;
  }
  /// `RunConfig::seed` of the start that wrote it; none if it was never committed.
  [[nodiscard]] auto seed() const noexcept -> std::optional<std::uint64_t> { return manifest_->seed; }
  /// Rows of that dataset in the start that wrote it; none if there was no such dataset.
  [[nodiscard]] auto dataset_rows(std::string const& name) const -> std::optional<std::uint64_t> {
    return value_of(manifest_->dataset_rows, name);
  }
  /// `Dataset::digest` of that dataset in the start that wrote it; none if there was no such dataset.
  [[nodiscard]] auto dataset_digest(std::string const& name) const -> std::optional<std::string> {
    return value_of(manifest_->dataset_digests, name);
  }
  /// `BatchOptions::batch_size` by which rank 0 had last taken that dataset; none if it had not.
  [[nodiscard]] auto batch_size(std::string const& name) const -> std::optional<std::uint64_t> {
    return value_of(manifest_->batch_sizes, name);
  }
  /// Workers of the start that wrote it; 0 if it was never committed.
  [[nodiscard]] auto world_size() const noexcept -> WorldSize { return {manifest_->world_size}; }
  /// Seconds of training until this one, over all starts of the run; 0 if it was never committed.
  [[nodiscard]] auto time_total_s() const noexcept -> double { return manifest_->time_total_s; }
  /// Rank 0's report that came with it; empty if it was never committed.
  [[nodiscard]] auto metrics() const noexcept -> Metrics const& { return manifest_->metrics; }
  [[nodiscard]] auto metadata() const noexcept -> std::map<std::string, std::string> const& {
    return manifest_->metadata;
  }

  /// In the order of their names, without the manifest; of one that was never committed without checksums.
  ///
  /// Errors: `not_found` when the directory has vanished.
  [[nodiscard]] auto files() const -> std::vector<FileEntry>;

  /// Content of one file, verified.
  ///
  /// Errors: `not_found` for a name that is not there, listing those that are; `corrupt_checkpoint`; `io`.
  [[nodiscard]] auto read(std::string_view name) const -> Bytes;

  /// Returns if every file is as it was committed; of one that was never committed, if it is there.
  ///
  /// Errors: `corrupt_checkpoint`, naming the first bad file; `not_found` when the directory has vanished; `io`.
  /// Cost: reads every file.
  void verify() const;

  /// All files, the manifest too, verified, as one run of bytes for `from_bytes`.
  ///
  /// Errors: as `read`.
  [[nodiscard]] auto to_bytes() const -> Bytes;

 private:
  explicit Checkpoint(std::filesystem::path path) : path_{std::move(path)} {}

  template <class T>
  [[nodiscard]] static auto value_of(std::optional<std::map<std::string, T>> const& values, std::string const& name)
      -> std::optional<T> {
    if (!values) return std::nullopt;
    auto const found = values->find(name);
    return found == values->end() ? std::nullopt : std::optional{found->second};
  }

  [[nodiscard]] auto is_committed() const noexcept -> bool { return manifest_->number > 0; }

  [[nodiscard]] auto attempted() const -> std::string { return "reading checkpoint '" + path_.string() + "'"; }

  void check_directory() const {
    auto const type = detail::type_of(path_);
    if (type == std::filesystem::file_type::directory) return;
    throw Error{Errc::not_found, attempted(),
                type == std::filesystem::file_type::not_found ? "there is no such directory" : "it is not a directory",
                "if it was there before, it was moved, removed, or beyond CheckpointConfig::num_to_keep"};
  }

  /// False when nothing is there. Errors: `corrupt_checkpoint` when it is something else; `io`.
  [[nodiscard]] auto is_file(std::string_view name) const -> bool {
    auto const type = detail::type_of(path_ / name);
    if (type == std::filesystem::file_type::not_found) return false;
    if (type != std::filesystem::file_type::regular) refuse(std::string{name}, "is not a regular file");
    return true;
  }

  [[noreturn]] void refuse(std::string const& name, std::string const& happened) const {
    check_directory();
    throw Error{Errc::corrupt_checkpoint, attempted(), "file '" + name + "' " + happened,
                "go on from an older checkpoint, or copy this one again from where it came"};
  }

  void check_manifest() const {
    std::string const name{detail::manifest_name};
    if (!is_file(name)) refuse(name, "is missing");
    if (detail::read_manifest(path_) != *manifest_) refuse(name, "is not the one that was read before");
  }

  void check_size(std::string const& name, StoredFile const& stored) const {
    if (!is_file(name)) refuse(name, "is missing");
    auto const size = detail::InputFile{path_ / name}.size_bytes();
    if (size != stored.size_bytes) {
      refuse(name, "has " + std::to_string(size) + " bytes instead of " + std::to_string(stored.size_bytes));
    }
  }

  void check_hash(std::string const& name, StoredFile const& stored, std::string const& hash) const {
    if (hash != stored.xxh3)
      refuse(name, "has other bytes than were written (XXH3 " + hash + " instead of " + stored.xxh3 + ")");
  }

  std::filesystem::path path_;
  std::shared_ptr<Manifest const> manifest_ = std::make_shared<Manifest const>();  ///< Number 0: none on disk.
};

inline auto Checkpoint::files() const -> std::vector<FileEntry> {
  std::vector<FileEntry> files;
  if (is_committed()) {
    for (auto const& [name, stored] : manifest_->files) files.push_back({name, stored.size_bytes, stored.xxh3});
    return files;
  }
  check_directory();
  try {
    for (auto const& entry : std::filesystem::recursive_directory_iterator{path_}) {
      if (!entry.is_regular_file()) continue;
      files.push_back({entry.path().lexically_relative(path_).generic_string(), entry.file_size(), {}});
    }
  } catch (std::filesystem::filesystem_error const& error) {
    throw detail::io_error("listing", path_, error.code().value());
  }
  std::ranges::sort(files, {}, &FileEntry::name);
  return files;
}

inline auto Checkpoint::read(std::string_view name) const -> Bytes {
  auto const entries = files();
  auto const entry = std::ranges::find(entries, name, &FileEntry::name);
  if (entry == entries.end()) {
    std::string names;
    for (auto const& other : entries) names += (names.empty() ? "" : ", ") + other.name;
    throw Error{Errc::not_found, attempted(), "it has no file '" + std::string{name} + "'",
                "it has " + (names.empty() ? "none" : names)};
  }
  if (!is_committed()) return detail::read_file(path_ / entry->name);
  StoredFile const stored{entry->size_bytes, entry->xxh3};
  check_size(entry->name, stored);
  auto content = detail::read_file(path_ / entry->name);
  check_hash(entry->name, stored, detail::xxh3_of(content));
  return content;
}

inline void Checkpoint::verify() const {
  check_directory();
  if (!is_committed()) return;
  check_manifest();
  for (auto const& [name, stored] : manifest_->files) {
    check_size(name, stored);
    check_hash(name, stored, detail::xxh3_of_file(path_ / name));
  }
}

inline auto Checkpoint::to_bytes() const -> Bytes {
  std::map<std::string, std::uint64_t> sizes;
  for (auto const& file : files()) sizes[file.name] = file.size_bytes;
  std::string const manifest{detail::manifest_name};
  if (is_committed()) {
    check_manifest();
    sizes[manifest] = detail::InputFile{path_ / manifest}.size_bytes();
  }
  return detail::write_archive(sizes, [&](std::string const& name) {
    return name == manifest ? detail::read_file(path_ / manifest) : read(name);
  });
}

inline auto Checkpoint::from_bytes(BytesView bytes, std::filesystem::path const& directory) -> Checkpoint {
  auto contents = detail::ArchiveReader{bytes}.files();
  std::error_code ignored;
  auto const is_there = std::filesystem::exists(directory, ignored);
  if (is_there &&
      (!std::filesystem::is_directory(directory, ignored) || !std::filesystem::is_empty(directory, ignored))) {
    throw Error{Errc::io, "making a checkpoint in '" + directory.string() + "'",
                "it is there, and not an empty directory", "name one that is not there yet"};
  }
  auto& disk = detail::system_files();
  // What a failure leaves lies where a link leads, not in the link.
  auto const place = is_there ? std::filesystem::canonical(directory, ignored) : directory;
  try {
    std::filesystem::create_directories(directory);
    for (auto const& [name, content] : contents) {
      auto const path = directory / name;
      std::filesystem::create_directories(path.parent_path());
      (void)detail::write_file(disk, path, content);
    }
    auto checkpoint = from_directory(directory);
    checkpoint.verify();
    return checkpoint;
  } catch (std::filesystem::filesystem_error const& error) {
    detail::try_remove_tree(disk, place);
    throw detail::io_error("creating", error.path1(), error.code().value());
  } catch (...) {
    detail::try_remove_tree(disk, place);
    throw;
  }
}

}  // namespace raytrain
