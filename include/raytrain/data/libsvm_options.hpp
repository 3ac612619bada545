// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

namespace raytrain {

/// How files of LIBSVM's format are read.
struct LibsvmOptions {
  std::optional<std::size_t> features{};  ///< So many of each row, 1 or more; unset: as many as the largest index says.
  /// Whether indices begin with 0. Unset: they do where any line of any of the files has the index 0, and with 1 else.
  std::optional<bool> zero_based{};
  float absent = 0;  ///< Value of the features that a line leaves out; XGBoost takes a NaN for them.
  std::size_t max_bytes = std::size_t{4} << 30U;  ///< The dense features take so much at most.
  std::size_t max_unpack_ratio = 200;             ///< As `CsvOptions::max_unpack_ratio`.
};

}  // namespace raytrain
