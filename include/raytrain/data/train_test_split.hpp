// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// Which rows `train_test_split` holds out. At most one of the two columns is named; it has one number a row.
struct SplitOptions {
  std::uint64_t seed = 0;  ///< Another one holds out other rows.
  bool shuffle = true;     ///< False: rows stay in the order in which they lie, and the last ones are held out.
  /// Column of classes, each of which has its share of either part, right to one row; empty: none.
  std::string stratify{};
  /// Column of groups, none of which is in both parts, as of the patient of whom several rows are; empty: none.
  std::string group{};
};

/// The rows to train on, and those that are held out for the test: `auto const [train, test] = ...`.
///
/// The test has `test_fraction` of the rows, right to one row. Of groups as many are held out, in random order, as come
/// nearest to it: at most half of a group's rows away, but for the one that each part has at least.
/// Errors: `invalid_call` for a fraction that is not between 0 and 1, or that leaves a part without rows or groups;
///         `invalid_config` when both columns are named; `not_found` and `invalid_data` for one that is not there or
///         has more than one value a row.
[[nodiscard]] auto train_test_split(Dataset const& dataset, double test_fraction, SplitOptions const& options = {})
    -> std::pair<Dataset, Dataset>;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/train_test_split-inl.hpp>
#endif
