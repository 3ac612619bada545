// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/new_file.hpp>

namespace raytrain::detail {

/// A text file that grows block by block, by a line for each row. The first block's columns are those of the file.
class LinesFile {
 public:
  /// `attempted`: of the errors; `alike`: what blocks must have in common, as "names and types".
  LinesFile(std::filesystem::path const& path, std::string attempted, char const* alike)
      : attempted_{std::move(attempted)}, alike_{alike}, file_{path, attempted_} {}

  [[nodiscard]] auto attempted() const noexcept -> std::string const& { return attempted_; }
  [[nodiscard]] auto has_begun() const noexcept -> bool { return has_begun_; }

  /// Whether the block adds something: one without rows and columns does not, behind the first.
  ///
  /// Errors: `invalid_data` for one without columns.
  [[nodiscard]] auto takes(Dataset const& block) const -> bool;

  /// The block's, in the order of the first block's. Errors: `invalid_data` for other columns than those.
  [[nodiscard]] auto columns_of(Dataset const& block) -> std::vector<Column>;

  /// Where the next line is to be appended, which `end_line` ends.
  [[nodiscard]] auto line() noexcept -> std::string& { return text_; }
  /// Errors: `io`.
  void end_line();

  /// Errors: `invalid_data` where no block came; `io`.
  void finish();

 private:
  std::string attempted_;
  char const* alike_;
  NewFile file_;
  bool has_begun_ = false;  ///< The first block came.
  Dataset first_columns_;   ///< Its, without its rows.
  std::string text_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/lines_file-inl.hpp>
#endif
