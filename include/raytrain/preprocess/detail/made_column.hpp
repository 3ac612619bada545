// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain::detail {

/// The dataset without the columns `dropped`, and with the one that was made of them behind the others.
///
/// Errors: `invalid_data` where a column that stays has its name.
[[nodiscard]] auto with_made_column(Dataset const& dataset, std::vector<std::string> const& dropped, Column made,
                                    std::string const& attempted) -> Dataset;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/made_column-inl.hpp>
#endif
