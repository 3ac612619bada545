// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>

namespace raytrain {

/// Writes a line with the columns' names and one for each row, whose numbers have the fewest digits from which
/// `read_csv` makes the same bits, given the columns' types: of float32, float64, int32, int64, booleans and text, and
/// of one row or more. Booleans are true and false. NaN are empty fields, whatever their bits, and so are missing
/// texts. A file that was there is replaced once all is written, and stays as it is where that fails.
///
/// Errors: `invalid_data` for a column with more than one value a row, where there is none, for a text that
///         `read_csv` takes for a missing one, as NA, and for a boolean that is neither 0 nor 1; `invalid_call` for a
///         name that ends in .gz; `io` when the file cannot be written.
/// Source: RFC 4180, with a line feed at the end of lines.
void write_csv(Dataset const& dataset, std::filesystem::path const& path);

/// The same of all blocks, of which one is in memory at a time: what a model says of the rows of a large file, say.
///
/// Errors: also `invalid_call` where some of the blocks were taken already, `invalid_data` where the columns of blocks
///         differ, and where there is no block; what their reader throws.
void write_csv(DatasetBlocks blocks, std::filesystem::path const& path);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/write_csv-inl.hpp>
#endif
