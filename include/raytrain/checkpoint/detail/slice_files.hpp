// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/message/message.hpp>

/// Files that hold slices of sharded arrays: each in its rank's folder, with one tensor. Its name says what is in it:
/// rank_0003/density.slice-250-500-of-1000.float32.safetensors has elements 250 to 499.
namespace raytrain::detail {

struct Slice {
  std::string array;
  ElementType type{};
  std::uint64_t begin{};
  std::uint64_t end{};  ///< Behind its last element.
  std::uint64_t total{};
  friend auto operator==(Slice const&, Slice const&) -> bool = default;
};

/// Why there can be no such slice; nothing if there can.
[[nodiscard]] auto slice_problem(Slice const& slice) -> std::optional<std::string>;

/// In its rank's folder. Of one without a `slice_problem`.
[[nodiscard]] auto slice_file_name(Slice const& slice) -> std::string;

/// Nothing for a name that is not exactly that of a slice.
[[nodiscard]] auto parse_slice_file_name(std::string_view name) -> std::optional<Slice>;

/// What the file of a slice has before its elements: one tensor, and the place as metadata.
[[nodiscard]] auto slice_index(Slice const& slice) -> TensorIndex;

/// The file of a slice in a checkpoint.
struct SliceFile {
  Slice slice;
  Rank rank;
  FileEntry file;
};

/// Of each array, by their begins.
using SliceFiles = std::map<std::string, std::vector<SliceFile>, std::less<>>;

/// The same of files that do not change, found when they are first asked for.
struct KnownSlices {
  std::once_flag made;
  SliceFiles arrays;
};

/// Those among a checkpoint's files that hold slices.
[[nodiscard]] auto slice_files(std::vector<FileEntry> files) -> SliceFiles;

/// Why slices, by their begins, are not one whole array; nothing if they are.
[[nodiscard]] auto array_problem(std::vector<SliceFile> const& slices) -> std::optional<std::string>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/detail/slice_files-inl.hpp>
#endif
