// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/categories.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain::detail {

template <class Values, class Value>
[[nodiscard]] auto place_in(Values const& ascending, Value const& value) noexcept -> std::int32_t {
  auto const found = std::ranges::lower_bound(ascending, value);
  if (found == ascending.end() || *found != value) return no_category;
  return static_cast<std::int32_t>(found - ascending.begin());
}

RAYTRAIN_INLINE auto Categories::number_of(std::string_view text) const noexcept -> std::int32_t {
  return place_in(texts, text);
}

RAYTRAIN_INLINE auto Categories::number_of(double number) const noexcept -> std::int32_t {
  return place_in(numbers, number);
}

/// The values at these places, which are in ascending order.
template <class Value>
void keep_places(std::vector<Value>& values, std::vector<std::size_t> const& places) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] != i) values[i] = std::move(values[places[i]]);
  }
  values.resize(places.size());
}

RAYTRAIN_INLINE auto categories_of(ValueCounts counts, std::optional<std::size_t> most, std::string const& column,
                                   std::string_view type_name) -> Categories {
  check_has_values(!counts.counts.empty(), column, type_name);
  for (auto const& text : counts.texts) {
    if (is_utf8(text)) continue;
    throw Error{Errc::invalid_data, fmt::format("{}::fit", type_name),
                fmt::format("column '{}' has '{}', which is not UTF-8: JSON of the preprocessor could not hold it",
                            column, to_utf8(text)),
                "convert the file to UTF-8, or replace the bytes that are not by raytrain::to_utf8"};
  }
  auto const is_text = !counts.texts.empty();
  Categories kept{std::move(counts.texts), std::move(counts.numbers)};
  if (!most || *most >= counts.counts.size()) return kept;
  std::vector<std::size_t> places(counts.counts.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(places, std::ranges::greater{}, [&](std::size_t place) { return counts.counts[place]; });
  places.resize(*most);
  std::ranges::sort(places);
  if (is_text) {
    keep_places(kept.texts, places);
  } else {
    keep_places(kept.numbers, places);
  }
  kept.has_others = true;
  return kept;
}

/// Errors: as `categories_of`; `invalid_data` for whole numbers that a double cannot tell apart.
[[nodiscard]] inline auto checked_categories(FitRows const& rows, ValueCounts counts, std::string const& column,
                                             std::optional<std::size_t> most, std::string_view type_name)
    -> Categories {
  auto const type = rows.layout().column(column).type();
  if (!counts.numbers.empty() && (type == ElementType::int64 || type == ElementType::uint64)) {
    constexpr auto last_exact = 9'007'199'254'740'991.0;  // 2^53 - 1
    if (counts.numbers.front() < -last_exact || counts.numbers.back() > last_exact) {
      throw Error{Errc::invalid_data, fmt::format("{}::fit", type_name),
                  fmt::format("column '{}' has whole numbers beyond 2^53, which cannot be told apart", column),
                  "read the column as text: CsvType::text"};
    }
  }
  return categories_of(std::move(counts), most, column, type_name);
}

RAYTRAIN_INLINE auto learn_categories(FitRows const& rows, std::string const& column, std::optional<std::size_t> most,
                                      std::string_view type_name) -> Categories {
  auto counts = value_counts(rows, column, fmt::format("{}::fit", type_name));
  return checked_categories(rows, std::move(counts), column, most, type_name);
}

RAYTRAIN_INLINE auto learn_categories(FitRows const& rows, std::vector<std::string> const& columns,
                                      std::optional<std::size_t> most, std::string_view type_name)
    -> CategoriesByColumn {
  check_columns(columns, type_name);
  check_not_zero(most, type_name, "max_categories");
  auto counts = value_counts(rows, columns, fmt::format("{}::fit", type_name));
  CategoriesByColumn learnt;
  for (auto const& name : columns) {
    learnt[name] = checked_categories(rows, std::move(counts.at(name)), name, most, type_name);
  }
  return learnt;
}

template <class Value>
[[nodiscard]] auto ascends(std::vector<Value> const& values) -> bool {
  return std::ranges::adjacent_find(values, std::not_fn(std::less<>{})) == values.end();
}

RAYTRAIN_INLINE void check_learnt_categories(Categories const& categories, std::string_view type_name,
                                             std::string_view field, std::string_view subject) {
  auto const& texts = categories.texts;
  auto const& numbers = categories.numbers;
  if (!texts.empty() && !numbers.empty()) {
    refuse_state(type_name, field, fmt::format("{} has both texts and numbers", subject));
  }
  auto const is_finite = [](double number) { return std::isfinite(number); };
  if (!ascends(texts) || !ascends(numbers) || !std::ranges::all_of(numbers, is_finite)) {
    refuse_state(type_name, field, fmt::format("{} has categories that do not ascend, or are not finite", subject));
  }
}

RAYTRAIN_INLINE void check_learnt_categories(CategoriesByColumn const& categories, std::string_view type_name,
                                             std::string_view field) {
  for (auto const& [name, of_column] : categories) {
    auto const subject = fmt::format("column '{}'", name);
    if (of_column.size() == 0) refuse_state(type_name, field, subject + " has no categories");
    check_learnt_categories(of_column, type_name, field, subject);
  }
}

RAYTRAIN_INLINE void check_not_zero(std::optional<std::size_t> most, std::string_view type_name,
                                    std::string_view setting) {
  if (most != std::size_t{0}) return;
  throw Error{Errc::invalid_config, fmt::format("{}::{}", type_name, setting), "must be at least 1 (got 0)",
              "leave it out, which keeps all"};
}

RAYTRAIN_INLINE void refuse_unknown(std::string const& column, std::string_view value, std::string const& attempted) {
  throw Error{
      Errc::invalid_data, attempted,
      fmt::format("column '{}' has '{}', which was not in the rows that were learnt from", column, to_utf8(value)),
      "fit on rows that have it, or leave such rows out by filter; HandleUnknown::ignore lets encoders pass over it"};
}

RAYTRAIN_INLINE void refuse_unknown(std::string const& column, double value, std::string const& attempted) {
  refuse_unknown(column, fmt::format("{}", value), attempted);
}

RAYTRAIN_INLINE NumberLookup::NumberLookup(Categories const& categories, std::size_t rows) : categories_{categories} {
  auto const& numbers = categories.numbers;
  if (numbers.empty()) return;
  auto const is_whole = [](double number) { return std::floor(number) == number; };
  auto const range = numbers.back() - numbers.front();
  if (!(range < static_cast<double>(rows)) || !std::ranges::all_of(numbers, is_whole)) return;
  first_ = numbers.front();
  table_.assign(static_cast<std::size_t>(range) + 1, no_category);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    table_[static_cast<std::size_t>(numbers[i] - first_)] = static_cast<std::int32_t>(i);
  }
}

RAYTRAIN_INLINE void check_kind(Column const& column, Categories const& categories, std::string const& attempted) {
  column.check_one_value_a_row(attempted);
  if (column.is_text() == categories.is_text()) return;
  auto const kind = [](bool is_text) { return is_text ? "text" : "numbers"; };
  throw Error{Errc::invalid_data, attempted,
              fmt::format("column '{}' holds {}, and held {} when it was learnt from", column.name(),
                          kind(column.is_text()), kind(categories.is_text())),
              "read it as it was read for fit: CsvType says how"};
}

RAYTRAIN_INLINE auto decoded(std::string const& column, Categories const& categories,
                             std::vector<std::int32_t> const& numbers) -> Column {
  if (categories.is_text()) {
    auto const codes = std::make_shared<std::vector<std::int32_t> const>(numbers);
    return {ColumnFormat{
                column, ElementType::int32, {}, std::make_shared<std::vector<std::string> const>(categories.texts)},
            {codes, reinterpret_cast<std::byte const*>(codes->data())},
            codes->size()};
  }
  std::vector<double> values;
  values.reserve(numbers.size());
  for (auto const number : numbers) {
    values.push_back(number == no_category ? std::numeric_limits<double>::quiet_NaN()
                                           : categories.numbers[static_cast<std::size_t>(number)]);
  }
  return {column, std::move(values)};
}

RAYTRAIN_INLINE auto decoded(Column const& column, Categories const& categories, std::string const& attempted)
    -> Column {
  column.check_holds_numbers(attempted);
  column.check_one_value_a_row(attempted);
  std::vector<std::int32_t> numbers;
  numbers.reserve(column.rows());
  column.visit([&]<Element T>(std::span<T const> values) {
    for (auto const element : values) {
      auto const value = as_double(element);
      if (value != value || value == no_category) {
        numbers.push_back(no_category);
      } else if (value >= 0 && value < static_cast<double>(categories.size()) && std::floor(value) == value) {
        numbers.push_back(static_cast<std::int32_t>(value));
      } else {
        throw Error{Errc::invalid_data, attempted,
                    fmt::format("column '{}' has {}, which is the number of no category", column.name(), value),
                    fmt::format("give it whole numbers from 0 to {}, or -1", categories.size() - 1)};
      }
    }
  });
  return decoded(column.name(), categories, numbers);
}

}  // namespace raytrain::detail
