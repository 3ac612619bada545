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

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/detail/archive.hpp>
#include <raytrain/checkpoint/detail/durable_files.hpp>
#include <raytrain/checkpoint/detail/file_name.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/detail/io_error.hpp>
#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/checkpoint/manifest.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto Checkpoint::from_directory(std::filesystem::path const& directory) -> Checkpoint {
  Checkpoint checkpoint{std::filesystem::absolute(directory).lexically_normal()};
  checkpoint.check_directory();
  if (checkpoint.is_file(detail::manifest_name)) {
    checkpoint.manifest_ = std::make_shared<Manifest const>(detail::read_manifest(checkpoint.path_));
  }
  return checkpoint;
}

RAYTRAIN_INLINE auto Checkpoint::training_iteration(Rank rank) const noexcept -> std::uint64_t {
  auto const& all = manifest_->training_iterations;
  return all && rank.value < all->size() ? (*all)[rank.value] : training_iteration();
}

RAYTRAIN_INLINE auto Checkpoint::kept_reports() const noexcept -> std::optional<std::vector<std::uint64_t>> const& {
  return manifest_->kept_reports;
}

RAYTRAIN_INLINE auto Checkpoint::dataset_rows(std::string const& name) const -> std::optional<std::uint64_t> {
  return value_of(manifest_->dataset_rows, name);
}

RAYTRAIN_INLINE auto Checkpoint::dataset_digest(std::string const& name) const -> std::optional<std::string> {
  return value_of(manifest_->dataset_digests, name);
}

RAYTRAIN_INLINE auto Checkpoint::batch_size(std::string const& name) const -> std::optional<std::uint64_t> {
  return value_of(manifest_->batch_sizes, name);
}

RAYTRAIN_INLINE auto Checkpoint::metadata() const noexcept -> std::map<std::string, std::string> const& {
  return manifest_->metadata;
}

RAYTRAIN_INLINE void Checkpoint::check_directory() const {
  auto const type = detail::type_of(path_);
  if (type == std::filesystem::file_type::directory) return;
  throw Error{Errc::not_found, attempted(),
              type == std::filesystem::file_type::not_found ? "there is no such directory" : "it is not a directory",
              "if it was there before, it was moved, removed, or beyond CheckpointConfig::num_to_keep"};
}

RAYTRAIN_INLINE auto Checkpoint::is_file(std::string_view name) const -> bool {
  auto const type = detail::type_of(path_ / name);
  if (type == std::filesystem::file_type::not_found) return false;
  if (type != std::filesystem::file_type::regular) refuse(std::string{name}, "is not a regular file");
  return true;
}

RAYTRAIN_INLINE void Checkpoint::refuse(std::string const& name, std::string const& happened) const {
  check_directory();
  throw Error{Errc::corrupt_checkpoint, attempted(), "file '" + name + "' " + happened,
              "go on from an older checkpoint, or copy this one again from where it came"};
}

RAYTRAIN_INLINE void Checkpoint::check_manifest() const {
  std::string const name{detail::manifest_name};
  if (!is_file(name)) refuse(name, "is missing");
  if (detail::read_manifest(path_) != *manifest_) refuse(name, "is not the one that was read before");
}

RAYTRAIN_INLINE void Checkpoint::check_size(std::string const& name, StoredFile const& stored) const {
  if (!is_file(name)) refuse(name, "is missing");
  auto const size = detail::InputFile{path_ / name}.size_bytes();
  if (size != stored.size_bytes) {
    refuse(name, "has " + std::to_string(size) + " bytes instead of " + std::to_string(stored.size_bytes));
  }
}

RAYTRAIN_INLINE void Checkpoint::check_hash(std::string const& name, StoredFile const& stored,
                                            std::string const& hash) const {
  if (hash != stored.xxh3)
    refuse(name, "has other bytes than were written (XXH3 " + hash + " instead of " + stored.xxh3 + ")");
}

RAYTRAIN_INLINE auto Checkpoint::files() const -> std::vector<FileEntry> {
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

RAYTRAIN_INLINE auto Checkpoint::read(std::string_view name) const -> Bytes {
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

RAYTRAIN_INLINE void Checkpoint::verify() const {
  check_directory();
  if (!is_committed()) return;
  check_manifest();
  for (auto const& [name, stored] : manifest_->files) {
    check_size(name, stored);
    check_hash(name, stored, detail::xxh3_of_file(path_ / name));
  }
}

RAYTRAIN_INLINE auto Checkpoint::to_bytes() const -> Bytes {
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

RAYTRAIN_INLINE auto Checkpoint::from_bytes(BytesView bytes, std::filesystem::path const& directory) -> Checkpoint {
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
