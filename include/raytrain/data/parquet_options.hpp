// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <raytrain/core/element_type.hpp>

namespace raytrain {

/// How Parquet files are read.
struct ParquetOptions {
  /// To be kept, in this order, so that the others are not even read; empty: all, in the order of the file.
  std::vector<std::string> columns{};
  /// What numbers become, and booleans as 1 and 0, by the name of their column; others keep the type that they have in
  /// the file. Floats round what they cannot hold, and have NaN where a value is missing; whole numbers must hold each
  /// value.
  std::map<std::string, ElementType, std::less<>> types{};
  /// `read_parquet` refuses a file whose columns take more than 64 MiB and more than so many times its size, as its
  /// footer counts them. A file that is made to fill the memory does, and so does one of rows that are very much alike:
  /// `parquet_blocks` reads both. Texts that are equal take the memory of one, in blocks where those of the column take
  /// at most 16 bytes in the file for each row of a block. The footer does not count longer ones in a block, texts in
  /// lists, and those in pages of DELTA_BYTE_ARRAY, each of which repeats the begin of the one before. They, too, are
  /// refused where a file, or a block, takes more than 512 MiB of Arrow's memory and more than so many times the file's
  /// size.
  std::size_t max_unpack_ratio = 200;
};

}  // namespace raytrain
