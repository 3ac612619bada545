// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_copies.hpp>
#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/checkpoint/detail/archive.hpp>
#include <raytrain/checkpoint/detail/directory_files.hpp>
#include <raytrain/checkpoint/detail/durable_files.hpp>
#include <raytrain/checkpoint/detail/file_names.hpp>
#include <raytrain/checkpoint/detail/file_system.hpp>
#include <raytrain/checkpoint/detail/slice_files.hpp>
#include <raytrain/checkpoint/manifest.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/checkpoint/sharded_array.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

namespace detail {

template <class Range, class Name>
[[nodiscard]] auto what_it_has(Range const& range, Name const& name) -> std::string {
  std::string names;
  for (auto const& each : range) names += (names.empty() ? "" : ", ") + std::invoke(name, each);
  return "it has " + (names.empty() ? "none" : names);
}

}  // namespace detail

RAYTRAIN_INLINE Checkpoint::Checkpoint(std::shared_ptr<CheckpointFiles const> files) : files_{std::move(files)} {
  files_->check_there();
  if (files_->size_of(std::string{detail::manifest_name})) {
    manifest_ = std::make_shared<Manifest const>(detail::read_manifest(*files_));
    slices_ = std::make_shared<detail::KnownSlices>();
  } else {
    manifest_ = std::make_shared<Manifest const>();
  }
}

RAYTRAIN_INLINE auto Checkpoint::number() const noexcept -> CheckpointNumber { return {manifest_->number}; }

RAYTRAIN_INLINE auto Checkpoint::run_id() const -> std::string { return manifest_->run_id.value_or(""); }

RAYTRAIN_INLINE auto Checkpoint::start() const noexcept -> std::uint64_t { return manifest_->start; }

RAYTRAIN_INLINE auto Checkpoint::training_iteration() const noexcept -> std::uint64_t {
  return manifest_->training_iteration;
}

RAYTRAIN_INLINE auto Checkpoint::seed() const noexcept -> std::optional<std::uint64_t> { return manifest_->seed; }

RAYTRAIN_INLINE auto Checkpoint::is_handed_over() const noexcept -> bool {
  return manifest_->handed_over.value_or(false);
}

RAYTRAIN_INLINE auto Checkpoint::world_size() const noexcept -> WorldSize { return {manifest_->world_size}; }

RAYTRAIN_INLINE auto Checkpoint::time_total_s() const noexcept -> double { return manifest_->time_total_s; }

RAYTRAIN_INLINE auto Checkpoint::metrics() const noexcept -> Metrics const& { return manifest_->metrics; }

RAYTRAIN_INLINE auto Checkpoint::is_committed() const noexcept -> bool { return manifest_->number > 0; }

RAYTRAIN_INLINE auto Checkpoint::from_directory(std::filesystem::path const& directory) -> Checkpoint {
  auto path = std::filesystem::absolute(directory).lexically_normal();
  return Checkpoint{std::make_shared<detail::DirectoryFiles const>(std::move(path))};
}

RAYTRAIN_INLINE auto Checkpoint::with_copies(std::shared_ptr<CheckpointCopies const> const& copies) const
    -> Checkpoint {
  auto checkpoint = *this;
  checkpoint.copies_ = copies;
  return checkpoint;
}

RAYTRAIN_INLINE auto Checkpoint::path() const -> std::filesystem::path const& {
  if (auto const& directory = files_->directory(); !directory.empty()) return directory;
  throw Error{
      Errc::invalid_call, "Checkpoint::path()", "'" + location() + "' lies in no directory of this machine",
      "write it to one by Checkpoint::from_bytes(checkpoint.to_bytes(), directory), or read its files by read()"};
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

RAYTRAIN_INLINE auto Checkpoint::position(std::string const& name) const -> std::optional<ShardPosition> {
  return value_of(manifest_->positions, name);
}

RAYTRAIN_INLINE auto Checkpoint::positions() const -> std::map<std::string, ShardPosition> {
  return manifest_->positions.value_or(std::map<std::string, ShardPosition>{});
}

RAYTRAIN_INLINE auto Checkpoint::order(std::string const& name) const -> std::optional<std::string> {
  return value_of(manifest_->orders, name);
}

RAYTRAIN_INLINE auto Checkpoint::batch_size(std::string const& name) const -> std::optional<std::uint64_t> {
  return value_of(manifest_->batch_sizes, name);
}

RAYTRAIN_INLINE auto Checkpoint::metadata() const noexcept -> std::map<std::string, std::string> const& {
  return manifest_->metadata;
}

RAYTRAIN_INLINE auto Checkpoint::run_metadata() const -> std::map<std::string, std::string> {
  return manifest_->run_metadata.value_or(std::map<std::string, std::string>{});
}

RAYTRAIN_INLINE void Checkpoint::check_manifest() const {
  std::string const name{detail::manifest_name};
  if (!files_->size_of(name)) files_->refuse(name, "is missing");
  if (detail::read_manifest(*files_) != *manifest_) files_->refuse(name, "is not the one that was read before");
}

RAYTRAIN_INLINE void Checkpoint::check_size(std::string const& name, StoredFile const& stored) const {
  auto const size = files_->size_of(name);
  if (!size) files_->refuse(name, "is missing");
  if (*size != stored.size_bytes) {
    files_->refuse(name, "has " + std::to_string(*size) + " bytes instead of " + std::to_string(stored.size_bytes));
  }
}

RAYTRAIN_INLINE void Checkpoint::check_hash(std::string const& name, StoredFile const& stored,
                                            std::string const& hash) const {
  if (hash == stored.xxh3) return;
  files_->refuse(name, "has other bytes than were written (XXH3 " + hash + " instead of " + stored.xxh3 + ")");
}

RAYTRAIN_INLINE auto Checkpoint::files() const -> std::vector<FileEntry> {
  if (!is_committed()) return files_->list();
  std::vector<FileEntry> files;
  for (auto const& [name, stored] : manifest_->files) files.push_back({name, stored.size_bytes, stored.xxh3});
  return files;
}

RAYTRAIN_INLINE auto Checkpoint::find_file(std::string_view name) const -> std::optional<FileEntry> {
  std::string const wanted{name};
  if (is_committed()) {
    auto const found = manifest_->files.find(wanted);
    if (found == manifest_->files.end()) return std::nullopt;
    return FileEntry{wanted, found->second.size_bytes, found->second.xxh3};
  }
  // Not by `size_of` where it could lead outside.
  if (!detail::file_name_problem(name)) {
    try {
      if (auto const size = files_->size_of(wanted)) return FileEntry{wanted, *size, {}};
    } catch (Error const& error) {
      if (error.code() != Errc::corrupt_checkpoint) throw;  // else something that is no file
    }
  }
  auto const entries = files_->list();
  auto const entry = std::ranges::find(entries, name, &FileEntry::name);
  return entry == entries.end() ? std::nullopt : std::optional{*entry};
}

RAYTRAIN_INLINE auto Checkpoint::contains(std::string_view name) const -> bool { return find_file(name).has_value(); }

RAYTRAIN_INLINE auto Checkpoint::entry_of(std::string_view name) const -> FileEntry {
  if (auto entry = find_file(name)) return *std::move(entry);
  throw Error{Errc::not_found, files_->attempted(), "it has no file '" + std::string{name} + "'",
              detail::what_it_has(files(), &FileEntry::name)};
}

RAYTRAIN_INLINE void Checkpoint::check_size(FileEntry const& entry) const {
  if (is_committed()) check_size(entry.name, {entry.size_bytes, entry.xxh3});
}

RAYTRAIN_INLINE void Checkpoint::check_content(FileEntry const& entry, BytesView content) const {
  if (is_committed()) check_hash(entry.name, {entry.size_bytes, entry.xxh3}, detail::xxh3_of(content));
}

RAYTRAIN_INLINE auto Checkpoint::read(std::string_view name) const -> Bytes {
  auto const entry = entry_of(name);
  if (auto const copy = copy_of(entry)) return {copy->view().begin(), copy->view().end()};
  check_size(entry);
  auto content = files_->read(entry.name);
  check_content(entry, content);
  return content;
}

RAYTRAIN_INLINE auto Checkpoint::view(std::string_view name) const -> SharedBytes { return view(entry_of(name)); }

RAYTRAIN_INLINE auto Checkpoint::copy_of(FileEntry const& entry) const -> std::optional<SharedBytes> {
  auto const copies = copies_.lock();
  auto copy = copies ? copies->find(number(), entry.name) : std::nullopt;
  if (copy && (copy->size() != entry.size_bytes || detail::xxh3_of(copy->view()) != entry.xxh3)) copy.reset();
  return copy;
}

RAYTRAIN_INLINE auto Checkpoint::view(FileEntry const& entry) const -> SharedBytes {
  if (auto copy = copy_of(entry)) return *std::move(copy);
  check_size(entry);
  auto content = files_->view(entry.name);
  check_content(entry, content.view());
  return content;
}

RAYTRAIN_INLINE auto Checkpoint::slice_files() const -> std::shared_ptr<detail::SliceFiles const> {
  if (!is_committed()) return std::make_shared<detail::SliceFiles const>(detail::slice_files(files()));
  std::call_once(slices_->made, [&] { slices_->arrays = detail::slice_files(files()); });
  return {slices_, &slices_->arrays};
}

RAYTRAIN_INLINE auto Checkpoint::sharded_arrays() const -> std::map<std::string, ShardedArray> {
  std::map<std::string, ShardedArray> arrays;
  auto const all = slice_files();
  for (auto const& [name, slices] : *all) {
    check_array(name, slices);
    arrays.emplace(name, ShardedArray{slices.front().slice.type, slices.front().slice.total});
  }
  return arrays;
}

RAYTRAIN_INLINE void Checkpoint::check_array(std::string const& name,
                                             std::vector<detail::SliceFile> const& slices) const {
  if (auto const problem = detail::array_problem(slices)) {
    throw Error{Errc::corrupt_checkpoint, files_->attempted(), "of the sharded array '" + name + "' " + *problem,
                "copy the files of all ranks' folders again from where they came"};
  }
}

RAYTRAIN_INLINE void Checkpoint::read_slice_bytes(std::string_view name, ElementType type, std::uint64_t begin,
                                                  std::span<std::byte> elements) const {
  auto const arrays = slice_files();
  auto const found = arrays->find(name);
  if (found == arrays->end()) {
    throw Error{Errc::not_found, files_->attempted(), "it has no sharded array '" + std::string{name} + "'",
                detail::what_it_has(*arrays, [](auto const& each) { return each.first; })};
  }
  auto const& slices = found->second;
  check_array(found->first, slices);
  auto const& [array, stored, first, last, total] = slices.front().slice;
  auto const count = elements.size() / size_bytes(type);
  auto const refuse = [&](std::string happened, std::string remedy) {
    throw Error{Errc::invalid_call, fmt::format("{}, its sharded array '{}'", files_->attempted(), name),
                std::move(happened), std::move(remedy)};
  };
  if (stored != type) {
    refuse(fmt::format("its elements are of {}, and the span of {}", to_string(stored), to_string(type)),
           "read them as they were stored; Checkpoint::sharded_arrays tells the type");
  }
  if (begin > total || count > total - begin) {
    refuse(fmt::format("it has {} elements, and {} from {} on were asked for", total, count, begin),
           "ask for elements that it has; Checkpoint::sharded_arrays tells the total");
  }
  for (auto const& each : slices) {
    auto const from = std::max(each.slice.begin, begin);
    auto const to = std::min(each.slice.end, begin + count);
    if (from >= to) continue;
    auto const content = view(each.file);
    auto const index = read_tensor_index(content.view(), files_->attempted() + ", its file '" + each.file.name + "'");
    if (index != detail::slice_index(each.slice)) {
      files_->refuse(each.file.name, "does not hold the slice that its name says");
    }
    auto const element = size_bytes(type);
    std::ranges::copy(
        content.view().subspan(index.header_bytes + (from - each.slice.begin) * element, (to - from) * element),
        elements.begin() + static_cast<std::ptrdiff_t>((from - begin) * element));
  }
}

RAYTRAIN_INLINE void Checkpoint::check_complete() const {
  files_->check_there();
  if (!is_committed()) return;
  check_manifest();
  for (auto const& [name, stored] : manifest_->files) check_size(name, stored);
}

RAYTRAIN_INLINE void Checkpoint::verify() const {
  check_complete();
  if (!is_committed()) return;
  for (auto const& [name, stored] : manifest_->files) check_hash(name, stored, files_->xxh3_of(name));
}

RAYTRAIN_INLINE auto Checkpoint::to_bytes() const -> Bytes {
  std::map<std::string, std::uint64_t> sizes;
  for (auto const& file : files()) sizes[file.name] = file.size_bytes;
  std::string const manifest{detail::manifest_name};
  if (is_committed()) {
    check_manifest();
    sizes[manifest] = files_->size_of(manifest).value_or(0);
  }
  return detail::write_archive(
      sizes, [&](std::string const& name) { return name == manifest ? files_->read(manifest) : read(name); });
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
  auto const folder = is_there ? std::filesystem::canonical(directory, ignored) : directory;
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
    detail::try_remove_tree(disk, folder);
    throw detail::io_error("creating", error.path1(), error.code().value());
  } catch (...) {
    detail::try_remove_tree(disk, folder);
    throw;
  }
}

}  // namespace raytrain
