// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <raytrain/data/column.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/added_counts.hpp>
#include <raytrain/preprocess/detail/values_of_codes.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain::detail {

/// Errors: `invalid_data` for a column of numbers.
void check_holds_text(Column const& column, std::string const& attempted);

/// How often each piece comes in all workers' texts: `for_each(text, work)` calls `work` with those of one. A group
/// operation.
///
/// Errors: `not_found`; `invalid_data` for a column of numbers, and for too many different pieces.
template <class ForEach>
[[nodiscard]] auto piece_counts(FitRows const& rows, std::string const& column, std::string const& attempted,
                                ForEach const& for_each) -> ValueCounts {
  check_holds_text(rows.layout().column(column), attempted);
  std::map<std::string, std::uint64_t> mine;
  rows.for_each_piece([&](Dataset const& some) {
    if (mine.size() > most_categories) return;
    for_each_text(some.column(column), [&](std::string const& text, std::uint64_t count) {
      for_each(text, [&](std::string_view piece) { mine[std::string{piece}] += count; });
      return mine.size() <= most_categories;
    });
  });
  ValueCounts counts;
  std::tie(counts.texts, counts.counts) = add_counts(rows, mine, column, attempted);
  return counts;
}

/// Adds 1 to `into`, which has `width` numbers for each row, at each place that `find(text, places)` puts into a vector
/// for the text of the row; it is called once for each different text that a row has.
template <class Find>
void add_at_places(Column const& texts, std::size_t width, std::span<float> into, Find const& find) {
  constexpr auto not_found = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> places;  // of all texts
  ValuesOfCodes<std::pair<std::size_t, std::size_t>> of_text{texts, {not_found, 0}};
  auto const codes = texts.as<std::int32_t>();
  for (std::size_t row = 0; row < codes.size(); ++row) {
    if (codes[row] < 0) continue;
    auto& [first, last] = of_text[codes[row]];
    if (first == not_found) {
      first = places.size();
      find(std::string_view{texts.categories()[static_cast<std::size_t>(codes[row])]}, places);
      last = places.size();
    }
    auto const of_row = into.subspan(row * width, width);
    for (auto at = first; at < last; ++at) of_row[places[at]] += 1;
  }
}

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/piece_counts-inl.hpp>
#endif
