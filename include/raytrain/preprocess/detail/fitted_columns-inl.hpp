// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void check_columns(std::vector<std::string> const& columns, std::string_view type_name) {
  auto const refuse = [&](std::string const& happened, std::string const& remedy) {
    throw Error{Errc::invalid_config, std::string{type_name} + "::columns", happened, remedy};
  };
  if (columns.empty()) refuse("names no column", fmt::format("write {}{{{{\"age\"}}}}", type_name));
  std::set<std::string_view> seen;
  for (auto const& name : columns) {
    if (!seen.insert(name).second) refuse(fmt::format("names '{}' twice", name), "name each column once");
  }
}

RAYTRAIN_INLINE void refuse_state(std::string_view type_name, std::string_view field, std::string const& happened) {
  throw Error{Errc::invalid_data, fmt::format("{}::{}", type_name, field), happened,
              "fit it again, or read the file as it was written"};
}

RAYTRAIN_INLINE void check_has_values(bool has_values, std::string const& column, std::string_view type_name) {
  if (has_values) return;
  throw Error{Errc::invalid_data, std::string{type_name} + "::fit", fmt::format("column '{}' has no value", column),
              "leave it out, or fill it before by SimpleImputer"};
}

}  // namespace raytrain::detail
