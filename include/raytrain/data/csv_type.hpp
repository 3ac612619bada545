// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace raytrain {

/// What a column of a file of text can become.
enum class CsvType : std::uint8_t {
  float32,
  float64,
  int32,
  int64,
  text,
  boolean,  ///< Booleans: true of true, True, TRUE and 1; false of false, False, FALSE and 0.
};

}  // namespace raytrain
