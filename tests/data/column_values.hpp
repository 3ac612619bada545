// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain::testing {

/// The values of a column, which are of this type.
template <Element T>
[[nodiscard]] auto values_of(Dataset const& data, std::string_view name) -> std::vector<T> {
  auto const values = data.column(name).as<T>();
  return {values.begin(), values.end()};
}

/// With -1 for each NaN, which equals nothing.
[[nodiscard]] inline auto floats(Dataset const& data, std::string_view name) -> std::vector<float> {
  auto all = values_of<float>(data, name);
  for (auto& value : all) value = std::isnan(value) ? -1 : value;
  return all;
}

}  // namespace raytrain::testing
