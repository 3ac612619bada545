// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/piece_of_lines.hpp>

namespace raytrain::detail {

/// The lines of a file of text, plain or gzip, one after the other.
///
/// Errors: those of `DataFile`.
class LineReader {
 public:
  /// `most_unpack_ratio` and `unpack_option`: of `DataFile::limit_unpacking`.
  LineReader(std::filesystem::path const& path, std::uint64_t most_unpack_ratio, std::string unpack_option)
      : file_{path} {
    file_.limit_unpacking(most_unpack_ratio, std::move(unpack_option));
  }

  /// Without the line feed, or the carriage return and line feed, at its end, and without a byte order mark in the
  /// first line. Nothing at the end of the file. It lives until the next call.
  ///
  /// Errors: `invalid_data` for a line of more than 256 MiB, to which a small gzip file may inflate.
  [[nodiscard]] auto next() -> std::optional<std::string_view>;

  /// Whole lines of `bytes` or more, from 1, of fewer at the end of the file, and nothing behind it. The file's first
  /// line is left to `next`. `is_row` says of a line whether it is one. `PieceOfRows::first_row` is left to the caller.
  ///
  /// Errors: as of `next`.
  [[nodiscard]] auto next_piece(std::size_t bytes, bool (*is_row)(std::string_view line)) -> std::optional<PieceOfRows>;

  [[nodiscard]] auto disk_bytes() const noexcept -> std::uint64_t { return file_.disk_bytes(); }

  /// Number of the line that came last, from 1.
  [[nodiscard]] auto number() const noexcept -> std::uint64_t { return number_; }

 private:
  /// Reads more behind what there is; false at the end of the file.
  [[nodiscard]] auto refill() -> bool;

  DataFile file_;
  std::vector<char> buffer_ = std::vector<char>(std::size_t{256} << 10U);
  std::size_t begin_ = 0;  ///< Of the line that comes next.
  std::size_t end_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/line_reader-inl.hpp>
#endif
