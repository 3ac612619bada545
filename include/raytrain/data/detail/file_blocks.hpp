// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/row_turns.hpp>

namespace raytrain::detail {

/// How files are read in blocks.
struct FileBlocksOptions {
  char const* function;  ///< Who asks, for errors: "csv_blocks".
  std::string format;    ///< All that the rows follow from, besides the files' content and the size of blocks.
  std::size_t rows;      ///< Of a block.
  /// What follows is of this file. Of its blocks only those that `turns` keeps are taken; others are skipped.
  std::function<void(std::filesystem::path const& path, RowTurns const& turns)> open{};
  /// The next block of the file, or none at its end.
  std::function<std::optional<Dataset>()> next{};
  /// Passes over it, or returns false at the file's end; empty: by `next`.
  std::function<bool()> skip{};
  std::function<void()> finish{};  ///< Behind the last file, to look whether something was missing; may be empty.
};

/// A name as a source's text has it: others have other texts, also those that are not UTF-8.
[[nodiscard]] auto exact_text(std::string const& name) -> std::string;

/// The blocks of several files, one file after the other, each of which must stay as it was when the range was made.
///
/// Errors: those of `DataPaths::files`, `not_found` or `io` for a file, and `invalid_call` for blocks of 0 rows. When a
///         block is read or skipped, `not_found` for a file that was removed, `io` for one that was changed, and those
///         of `next` and `skip`.
[[nodiscard]] auto file_blocks(DataPaths const& paths, FileBlocksOptions options) -> DatasetBlocks;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/file_blocks-inl.hpp>
#endif
