// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/detail/file_names.hpp>
#include <raytrain/checkpoint/detail/slice_files.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/checkpoint/sharded_array.hpp>
#include <raytrain/checkpoint/snapshot_buffers.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/signs_of_life.hpp>
#include <raytrain/core/utf8.hpp>

namespace raytrain {

RAYTRAIN_INLINE CheckpointDraft::CheckpointDraft(Checkpoint const& checkpoint) : metadata_{checkpoint.metadata()} {
  for (auto const& file : checkpoint.files()) add(file.name, checkpoint.read(file.name));
}

RAYTRAIN_INLINE auto CheckpointDraft::from_directory(std::filesystem::path const& directory) -> CheckpointDraft {
  return CheckpointDraft{Checkpoint::from_directory(directory)};
}

RAYTRAIN_INLINE auto CheckpointDraft::replicated(Fill fill) -> CheckpointDraft {
  CheckpointDraft draft;
  draft.fill_ = std::move(fill);
  draft.is_replicated_ = true;
  return draft;
}

RAYTRAIN_INLINE auto CheckpointDraft::sharded(Fill fill) -> CheckpointDraft {
  CheckpointDraft draft;
  draft.fill_ = std::move(fill);
  return draft;
}

RAYTRAIN_INLINE auto CheckpointDraft::add(std::string name, Content content) -> CheckpointDraft& {
  check_name(name);
  files_.emplace(std::move(name), std::move(content));
  return *this;
}

RAYTRAIN_INLINE auto CheckpointDraft::add(std::string name, Bytes content) -> CheckpointDraft& {
  return add(std::move(name), Content{std::move(content)});
}

RAYTRAIN_INLINE auto CheckpointDraft::add(std::string name, std::string_view text) -> CheckpointDraft& {
  auto const bytes = bytes_of(text);
  return add(std::move(name), Bytes{bytes.begin(), bytes.end()});
}

RAYTRAIN_INLINE auto CheckpointDraft::add_incomplete(std::string name, Content content, Complete complete)
    -> CheckpointDraft& {
  add(std::move(name), std::move(content));
  incomplete_.push_back(std::make_shared<Incomplete>());
  incomplete_.back()->complete = std::move(complete);
  if (may_be_incomplete()) return *this;
  wait_until_complete();
  incomplete_.clear();
  return *this;
}

RAYTRAIN_INLINE void CheckpointDraft::wait_until_complete(IsGivenUp const& is_given_up) const {
  for (auto const& file : incomplete_) {
    std::scoped_lock const lock{file->mutex};
    if (file->complete) {
      try {
        file->complete(is_given_up);
      } catch (...) {
        file->failure = std::current_exception();
      }
      file->complete = nullptr;
    }
    if (file->failure) std::rethrow_exception(file->failure);
  }
}

RAYTRAIN_INLINE auto CheckpointDraft::add_own(std::string name, Bytes content) -> CheckpointDraft& {
  add(name, std::move(content));
  own_files_.insert(std::move(name));
  return *this;
}

RAYTRAIN_INLINE auto CheckpointDraft::set_for_all(std::string name, Content content) -> CheckpointDraft& {
  remove(name).add(name, std::move(content));
  files_for_all_.insert(std::move(name));
  return *this;
}

RAYTRAIN_INLINE auto CheckpointDraft::remove(std::string const& name) -> CheckpointDraft& {
  files_.erase(name);
  own_files_.erase(name);
  files_for_all_.erase(name);
  return *this;
}

RAYTRAIN_INLINE auto CheckpointDraft::without_own() const -> CheckpointDraft {
  auto rest = *this;
  for (auto const& name : own_files_) rest.files_.erase(name);
  rest.own_files_.clear();
  return rest;
}

RAYTRAIN_INLINE auto CheckpointDraft::allocate(std::string name, std::size_t size_bytes) -> std::span<std::byte> {
  check_name(name);
  auto const memory = buffers_.value_or(SnapshotBuffers{}).take(name, size_bytes);
  add(std::move(name), Content{{memory.get(), size_bytes}, memory});
  return {memory.get(), size_bytes};
}

RAYTRAIN_INLINE auto CheckpointDraft::add_slice_bytes(std::string name, ElementType type, SlicePlace place,
                                                      BytesView elements) -> CheckpointDraft& {
  detail::Slice slice{std::move(name), type, place.begin, place.begin + elements.size() / size_bytes(type),
                      place.total};
  if (auto const problem = detail::slice_problem(slice)) {
    throw Error{Errc::invalid_report, "CheckpointDraft::add_slice of '" + detail::shown_name(slice.array) + "'",
                *problem,
                "give the elements that this rank has, at least one, and on all ranks the total of all of them; a rank "
                "without elements adds no slice"};
  }
  auto const index = detail::slice_index(slice);
  auto const header = tensor_header(index);
  auto const content = allocate(detail::slice_file_name(slice), index.file_bytes);
  SignsOfLife::During const saves{SignsOfLife::Activity::saves};  // however long it takes
  std::ranges::copy(bytes_of(header), content.begin());
  std::ranges::copy(elements, content.begin() + static_cast<std::ptrdiff_t>(index.header_bytes));
  return *this;
}

RAYTRAIN_INLINE auto CheckpointDraft::set_metadata(std::string key, std::string value) -> CheckpointDraft& {
  if (!is_utf8(key) || !is_utf8(value)) {
    throw Error{Errc::invalid_report, "CheckpointDraft::set_metadata", "'" + to_utf8(key) + "' is not UTF-8 text",
                "add bytes as a file"};
  }
  metadata_.insert_or_assign(std::move(key), std::move(value));
  return *this;
}

RAYTRAIN_INLINE auto CheckpointDraft::per_rank() -> CheckpointDraft& {
  per_rank_ = true;
  return *this;
}

RAYTRAIN_INLINE void CheckpointDraft::fill(Rank rank, std::optional<SnapshotBuffers> buffers) {
  auto const fill = std::exchange(fill_, nullptr);
  if (!fill || (is_replicated_ && rank != Rank{0})) return;
  if (buffers) buffers->begin_checkpoint();
  buffers_ = std::move(buffers);
  try {
    SignsOfLife::During const fills{SignsOfLife::Activity::fills};
    fill(*this);
  } catch (...) {
    buffers_.reset();
    throw;
  }
  buffers_.reset();
}

RAYTRAIN_INLINE auto CheckpointDraft::files_of(Rank rank) const -> std::map<std::string, Content> {
  std::map<std::string, Content> files;
  for (auto const& [name, content] : files_) {
    auto const is_own = !files_for_all_.contains(name) &&
                        (per_rank_ || own_files_.contains(name) || detail::parse_slice_file_name(name));
    files.emplace(is_own ? rank_folder_name(rank) + "/" + name : name, content);
  }
  return files;
}

RAYTRAIN_INLINE void CheckpointDraft::check_name(std::string const& name) const {
  auto const refuse = [&](std::string const& happened, char const* remedy =
                                                           "name it relative to the checkpoint, like 'model.pt' or "
                                                           "'model/weights.bin'") {
    throw Error{Errc::invalid_report, "adding the file '" + detail::shown_name(name) + "' to a checkpoint", happened,
                remedy};
  };
  if (auto const problem = detail::file_name_problem(name)) refuse("its name " + *problem);
  if (auto const* const clash = detail::find_clash(files_, name)) {
    refuse(clash->first == name ? "it was added before"
                                : "'" + clash->first + "' was added before, and one is a folder of the other",
           "give one of the two another name");
  }
}

}  // namespace raytrain
