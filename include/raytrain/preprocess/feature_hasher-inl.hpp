// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/hash_buckets.hpp>
#include <raytrain/preprocess/detail/made_column.hpp>
#include <raytrain/preprocess/detail/piece_counts.hpp>
#include <raytrain/preprocess/detail/zeroed_rows.hpp>
#include <raytrain/preprocess/feature_hasher.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto FeatureHasher::made_of(Dataset const& dataset, char const* attempted) const -> Dataset {
  detail::check_columns(columns, type_name);
  detail::check_num_features(num_features, type_name);
  if (output_column.empty()) {
    throw Error{Errc::invalid_config, "FeatureHasher::output_column", "is empty",
                "name the column, as \"hashed_features\""};
  }
  detail::ZeroedRows made{dataset.rows(), num_features};
  auto const sums = made.values();
  for (auto const& name : columns) {
    auto const& column = dataset.column(name);
    column.check_one_value_a_row(attempted);
    if (column.is_text()) {
      detail::add_at_places(column, num_features, sums, [&](std::string_view text, std::vector<std::size_t>& places) {
        places.push_back(detail::hash_bucket((name + "=").append(text), num_features));
      });
      continue;
    }
    auto const place = detail::hash_bucket(name, num_features);
    column.visit([&]<Element T>(std::span<T const> values) {
      for (std::size_t row = 0; row < values.size(); ++row) {
        auto const value = static_cast<float>(detail::as_double(values[row]));
        if (value == value) sums[row * num_features + place] += value;
      }
    });
  }
  return detail::with_made_column(dataset, columns, std::move(made).take(output_column), attempted);
}

}  // namespace raytrain
