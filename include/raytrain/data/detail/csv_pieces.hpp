// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/piece_of_lines.hpp>

namespace raytrain::detail {

/// Cuts what is left of a CSV file into pieces, so that several threads can read them.
class CsvPieces {
 public:
  struct Options {
    std::string_view text{};        ///< Read from the file and not used; it begins at a line's start.
    std::uint64_t line_number = 1;  ///< Of that line.
    std::uint64_t first_row = 0;    ///< The number of the first row there.
    char delimiter = ',';
    std::size_t piece_bytes;  ///< Read at a time, from 1.
  };

  /// The file outlives the pieces.
  CsvPieces(DataFile& file, Options const& options)
      : file_{file},
        piece_bytes_{options.piece_bytes},
        rest_{options.text},
        line_number_{options.line_number},
        first_row_{options.first_row},
        delimiter_{options.delimiter} {}

  /// The next piece, none behind the last one. How many rows it has is not known of the last one, and behind a quote
  /// that does not close.
  ///
  /// A problem, as a quote that does not close, is left for the reader of the piece to report: the piece has the text
  /// up to there at least, and none follows.
  /// Errors: those of `DataFile`.
  [[nodiscard]] auto next() -> std::optional<PieceOfRows>;

 private:
  /// More of the file behind `text`; false at its end.
  [[nodiscard]] auto append_to(std::string& text) -> bool;

  DataFile& file_;
  std::size_t piece_bytes_;
  std::string rest_;  ///< Behind the last line's end.
  std::uint64_t line_number_;
  std::uint64_t first_row_;
  char delimiter_;
  bool is_at_end_ = false;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/csv_pieces-inl.hpp>
#endif
