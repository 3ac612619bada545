// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/hash_buckets.hpp>
#include <raytrain/preprocess/detail/missing_texts.hpp>
#include <raytrain/preprocess/detail/piece_counts.hpp>
#include <raytrain/preprocess/detail/text_pieces.hpp>
#include <raytrain/preprocess/detail/zeroed_rows.hpp>
#include <raytrain/preprocess/hashing_vectorizer.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto HashingVectorizer::made_of(Dataset const& dataset, char const* attempted) const -> Dataset {
  detail::check_columns(columns, type_name);
  detail::check_num_features(num_features, type_name);
  auto result = dataset;
  for (auto const& name : columns) {
    // Of no rows, at which fit looks, nobody can tell whether all are missing.
    auto const column = dataset.rows() == 0 ? dataset.column(name) : detail::with_missing_texts(dataset.column(name));
    detail::check_holds_text(column, attempted);
    detail::ZeroedRows made{dataset.rows(), num_features};
    detail::add_at_places(
        column, num_features, made.values(), [&](std::string_view text, std::vector<std::size_t>& places) {
          detail::for_each_token(
              text, [&](std::string_view token) { places.push_back(detail::hash_bucket(token, num_features)); });
        });
    result = result.with_column(std::move(made).take(name));
  }
  return result;
}

}  // namespace raytrain
