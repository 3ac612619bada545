// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/json_lines_options.hpp>

namespace raytrain {

/// A row of each line, which is a JSON object, and a column of each of its names, from files that are plain, gzip or
/// zstd. The rows of several files follow one another as if they were one file.
///
/// A name that a line has not, and null, is a missing value: NaN, or no text. true and false are 1 and 0 of float32,
/// which can be missing; name `CsvType::boolean` for a column of booleans. Arrays of numbers, whose lengths are the
/// same in all lines, are the row shape; those of arrays one of more dimensions. The texts "NaN", "Infinity" and
/// "-Infinity" are numbers where the column's are. Lines of blanks are none.
///
/// Threads: reads one file after the other, one of 4 MiB or more on disk on all cores, once each column of its lines
///          has come and has its type: name `JsonLinesOptions::columns` where others come late.
/// Errors: those of `DataPaths::files`; `not_found` for a file or a column that is not there; `io`, also for one that
///         is changed meanwhile; `invalid_config` for a column that is named twice, and for the type of one that is
///         left out; `invalid_data`, with file and line, for what is no JSON object, an object within one, a name that
///         comes twice, values of several kinds or shapes in one column, a number that its column cannot hold, integers
///         that are missing, more than 1,048,576 names, more missing values than 16 for each byte and 67 million, no
///         rows, and beyond `max_unpack_ratio`.
/// Source: RFC 8259 for each line.
[[nodiscard]] auto read_json_lines(DataPaths const& paths, JsonLinesOptions const& options = {}) -> Dataset;

/// The same of text, as a request to a server has it, which errors call `what`.
///
/// Each name of the options must come in one of the lines, so that one that is misspelt is not taken for a missing one.
/// The text may be anybody's.
/// Errors: those of `read_json_lines`, but for those of files.
[[nodiscard]] auto parse_json_lines(std::string_view text, JsonLinesOptions const& options = {},
                                    std::string_view what = "JSON lines") -> Dataset;

/// The same rows in blocks, of which one is in memory at a time: for files that are larger than memory. Each has
/// `rows` rows, but for a file's last one. Of a file of 4 MiB or more, pieces are read ahead on up to 8 cores.
///
/// The first block says which columns there are, and the type and row shape of each. Where all values of one are
/// missing there, it is float32 with one value a row, to which the texts "NaN", "Infinity" and "-Infinity" are numbers.
/// A column that comes later needs one of `JsonLinesOptions::types`, and has one value a row. Each block of texts has
/// categories of its own.
///
/// Errors: when the range is made, those of `DataPaths::files`, `not_found` or `io` for a file, `invalid_config` for a
///         column that is named twice, and for the type of one that is left out, and `invalid_call` for 0 rows. When a
///         block is read, the others of `read_json_lines`, `invalid_data` for a name that comes behind the first block
///         and has no type, `not_found` for a file that was removed, and `io` for one that was changed. Blocks that a
///         shard or a position skips are not looked at: where there are some, it is no error if no line has a name of
///         `JsonLinesOptions::types`.
/// Cost: of blocks that are skipped the lines are counted. Only the first block is always parsed.
[[nodiscard]] auto json_lines_blocks(DataPaths const& paths, JsonLinesOptions options = {}, std::size_t rows = 65'536)
    -> DatasetBlocks;

/// Writes an object on a line for each row, whose numbers have the fewest digits from which `read_json_lines` makes the
/// same bits, given the columns' types: of float32, float64, int32, int64, booleans and text, and of one row or
/// more. Booleans are true and false. NaN, whatever their bits, and missing texts are null. Row shapes are arrays. A
/// file that was there is replaced once all is written, and stays as it is where that fails.
///
/// Errors: `invalid_data` where there is no column, for a name or a row's text that is not UTF-8, and for a boolean
///         that is neither 0 nor 1; `invalid_call` for a name that ends in .gz; `io` when the file cannot be written.
/// Source: RFC 8259; proto3's JSON mapping for the texts of infinities.
void write_json_lines(Dataset const& dataset, std::filesystem::path const& path);

/// The same of all blocks, of which one is in memory at a time: what a model says of the rows of a large file, say.
///
/// Errors: also `invalid_call` where some of the blocks were taken already, `invalid_data` where the columns of blocks
///         differ, and where there is no block; what their reader throws.
void write_json_lines(DatasetBlocks blocks, std::filesystem::path const& path);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/json_lines-inl.hpp>
#endif
