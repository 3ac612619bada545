// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <raytrain/data/csv_type.hpp>

namespace raytrain {

/// How lines of JSON are read.
struct JsonLinesOptions {
  /// To be kept, in this order; empty: all, in the order in which they first come.
  std::vector<std::string> columns{};
  /// The types of columns that are kept; of one that is not named, its first value decides: a number, true or false
  /// makes it float32, a text text. Whole numbers that float32 has not, from 16,777,217 on, are refused there. A column
  /// that is to be text takes numbers, true and false as they are written.
  std::map<std::string, CsvType, std::less<>> types{};
  std::size_t max_unpack_ratio = 200;  ///< As `CsvOptions::max_unpack_ratio`.
};

}  // namespace raytrain
