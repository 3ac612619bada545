// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace raytrain::detail {

/// Whether something is learnt of each of the columns, of which there is at least one.
template <class Learnt>
[[nodiscard]] auto has_learnt(std::vector<std::string> const& columns, std::map<std::string, Learnt> const& learnt)
    -> bool {
  return !columns.empty() && std::ranges::all_of(columns, [&](auto const& name) { return learnt.contains(name); });
}

/// Errors: `invalid_config` for no column, and for one that is named twice.
void check_columns(std::vector<std::string> const& columns, std::string_view type_name);

/// Errors: `invalid_data`, always: a file gives `field` what no fit learns.
[[noreturn]] void refuse_state(std::string_view type_name, std::string_view field, std::string const& happened);

/// Errors: `invalid_data` for a column from which nothing can be learnt.
void check_has_values(bool has_values, std::string const& column, std::string_view type_name);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/fitted_columns-inl.hpp>
#endif
