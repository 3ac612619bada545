// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/message/named_enum.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/float_columns.hpp>
#include <raytrain/preprocess/detail/missing_texts.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/simple_imputer.hpp>
#include <raytrain/preprocess/value_quantiles.hpp>

namespace raytrain {

namespace detail {

[[noreturn]] inline void refuse_constant(char const* setting, std::string const& happened, std::string const& remedy) {
  throw Error{Errc::invalid_config, std::string{"SimpleImputer::"} + setting, happened, remedy};
}

inline void check_constant(SimpleImputer const& imputer) {
  auto const wanted = imputer.strategy == ImputeStrategy::constant;
  auto const* const setting = imputer.fill_text ? "fill_text" : "fill_value";
  if (!wanted && (imputer.fill_value || imputer.fill_text)) {
    refuse_constant(setting, fmt::format("is given, and the strategy is {}", name_of(imputer.strategy)),
                    "write .strategy = raytrain::ImputeStrategy::constant, or leave it out");
  }
  if (imputer.fill_value && !std::isfinite(*imputer.fill_value)) {
    refuse_constant("fill_value", fmt::format("must be finite (got {})", *imputer.fill_value), "write .fill_value = 0");
  }
}

/// The first of those that come most often.
[[nodiscard]] inline auto most_frequent(ValueCounts const& counts) -> std::size_t {
  return static_cast<std::size_t>(std::ranges::max_element(counts.counts) - counts.counts.begin());
}

/// What is learnt of all columns at once.
struct ImputerStatistics {
  ByColumn<double> means{};                     ///< Of the strategy `mean`.
  std::map<std::string, ValueCounts> counts{};  ///< Of `most_frequent`, of columns of one value a row.
};

[[nodiscard]] inline auto learn_statistics(SimpleImputer const& imputer, FitRows const& rows) -> ImputerStatistics {
  std::vector<std::string> averaged;
  std::vector<std::string> counted;
  for (auto const& name : imputer.columns) {
    auto const& column = rows.layout().column(name);
    if (imputer.strategy == ImputeStrategy::mean && !column.is_text()) averaged.push_back(name);
    if (imputer.strategy == ImputeStrategy::most_frequent && column.row_values() == 1) counted.push_back(name);
  }
  return {value_means(rows, averaged, "SimpleImputer::fit"), value_counts(rows, counted, "SimpleImputer::fit")};
}

/// The constant, or the one that comes most often; of neither strategy `invalid_config`.
[[nodiscard]] inline auto learn_text(SimpleImputer const& imputer, std::string const& name,
                                     ImputerStatistics const& statistics) -> ColumnFill {
  if (imputer.strategy == ImputeStrategy::constant) {
    if (!imputer.fill_text) {
      refuse_constant("fill_text", fmt::format("is not given, and column '{}' holds text", name),
                      "write .fill_text = \"unknown\"");
    }
    return {.numbers = {}, .text = imputer.fill_text};
  }
  if (imputer.strategy != ImputeStrategy::most_frequent) {
    throw Error{Errc::invalid_config, "SimpleImputer::strategy",
                fmt::format("is {}, and column '{}' holds text", name_of(imputer.strategy), name),
                "fill it by another one, by ImputeStrategy::most_frequent or constant"};
  }
  auto const& counts = statistics.counts.at(name);
  check_has_values(!counts.counts.empty(), name, SimpleImputer::type_name);
  return {.numbers = {}, .text = counts.texts[most_frequent(counts)]};
}

/// NaN of no values.
[[nodiscard]] inline auto most_frequent_number(ValueCounts const& counts) -> double {
  return counts.counts.empty() ? std::numeric_limits<double>::quiet_NaN() : counts.numbers[most_frequent(counts)];
}

/// Of several values a row, those at one place.
[[nodiscard]] inline auto most_frequent_at(FitRows const& rows, std::string const& name, std::size_t place) -> double {
  auto const alone = rows.transformed([&](Dataset const& all) {
    auto const& column = all.column(name);
    std::vector<double> values;
    values.reserve(column.rows());
    column.visit([&]<Element T>(std::span<T const> from) {
      for (auto at = place; at < from.size(); at += column.row_values()) values.push_back(as_double(from[at]));
    });
    return Dataset::from_columns({{name, std::move(values)}});
  });
  return most_frequent_number(value_counts(alone, name, "SimpleImputer::fit"));
}

[[nodiscard]] inline auto learn_numbers(SimpleImputer const& imputer, FitRows const& rows, std::string const& name,
                                        ImputerStatistics const& statistics) -> ColumnFill {
  auto const width = rows.layout().column(name).row_values();
  ColumnFill fill;
  switch (imputer.strategy) {
    case ImputeStrategy::mean: fill.numbers = statistics.means.at(name); break;
    case ImputeStrategy::median:
      for (auto const& quantiles : value_quantiles(rows, name, {0.5}, "SimpleImputer::fit")) {
        fill.numbers.push_back(quantiles[0]);
      }
      break;
    case ImputeStrategy::most_frequent:
      for (std::size_t place = 0; place < width; ++place) {
        fill.numbers.push_back(width == 1 ? most_frequent_number(statistics.counts.at(name))
                                          : most_frequent_at(rows, name, place));
      }
      break;
    case ImputeStrategy::constant:
      if (!imputer.fill_value) {
        refuse_constant("fill_value", fmt::format("is not given, and column '{}' holds numbers", name),
                        "write .fill_value = 0");
      }
      fill.numbers.assign(width, *imputer.fill_value);
      break;
  }
  auto const is_there = [](double value) { return !std::isnan(value); };
  check_has_values(std::ranges::all_of(fill.numbers, is_there), name, SimpleImputer::type_name);
  return fill;
}

using SharedTexts = std::shared_ptr<std::vector<std::string> const>;

/// Categories that a fill was put among. All slices of a column get the same ones while any has them: it is made once,
/// and the slices are joined without looking at texts.
struct TextsWithFill {
  std::weak_ptr<std::vector<std::string> const> before;
  std::string fill;
  std::weak_ptr<std::vector<std::string> const> after;
};

[[nodiscard]] RAYTRAIN_INLINE auto texts_with_fill(SharedTexts const& before, std::string const& fill,
                                                   std::size_t place) -> SharedTexts {
  static std::mutex mutex;
  static std::vector<TextsWithFill> made;
  std::lock_guard const lock{mutex};
  std::erase_if(made, [](TextsWithFill const& one) { return one.before.expired() || one.after.expired(); });
  for (auto const& one : made) {
    auto const after = one.after.lock();
    if (after && one.before.lock() == before && one.fill == fill) return after;
  }
  auto texts = std::make_shared<std::vector<std::string>>();
  texts->reserve(before->size() + 1);
  auto const here = before->begin() + static_cast<std::ptrdiff_t>(place);
  texts->insert(texts->end(), before->begin(), here);
  texts->push_back(fill);
  texts->insert(texts->end(), here, before->end());
  made.push_back({before, fill, texts});
  return texts;
}

/// With the text among the categories, also where no row lacks one: columns of the same categories keep equal codes.
[[nodiscard]] inline auto filled_texts(Column const& column, std::string const& fill) -> Column {
  auto texts = column.format().categories;
  // Those of a program's own column may be in any order.
  auto const found =
      std::ranges::is_sorted(*texts) ? std::ranges::lower_bound(*texts, fill) : std::ranges::find(*texts, fill);
  auto const fill_code = static_cast<std::int32_t>(found - texts->begin());
  auto const is_new = found == texts->end() || *found != fill;
  if (is_new) texts = texts_with_fill(texts, fill, static_cast<std::size_t>(fill_code));
  auto codes = std::make_shared<std::vector<std::int32_t>>();
  codes->reserve(column.rows());
  for (auto const code : column.as<std::int32_t>()) {
    codes->push_back(code < 0 ? fill_code : code + (is_new && code >= fill_code ? 1 : 0));
  }
  return {ColumnFormat{column.name(), ElementType::int32, {}, std::move(texts)},
          {codes, reinterpret_cast<std::byte const*>(codes->data())},
          codes->size()};
}

[[nodiscard]] inline auto holds_integers(Column const& column) -> bool {
  auto integers = false;
  column.visit([&]<Element T>(std::span<T const> /*values*/) { integers = std::is_integral_v<T>; });
  return integers;
}

}  // namespace detail

RAYTRAIN_INLINE void SimpleImputer::fit(FitRows const& rows) {
  detail::check_columns(columns, type_name);
  detail::check_constant(*this);
  auto const statistics = detail::learn_statistics(*this, rows);
  std::map<std::string, detail::ColumnFill> learnt;
  for (auto const& name : columns) {
    learnt[name] = rows.layout().column(name).is_text() ? detail::learn_text(*this, name, statistics)
                                                        : detail::learn_numbers(*this, rows, name, statistics);
  }
  fills = std::move(learnt);
}

RAYTRAIN_INLINE void SimpleImputer::check_state() const {
  for (auto const& [name, fill] : fills) {
    auto const are_finite = std::ranges::all_of(fill.numbers, [](double number) { return std::isfinite(number); });
    if (are_finite && fill.numbers.empty() == fill.text.has_value()) continue;
    detail::refuse_state(type_name, "fills", fmt::format("column '{}' needs finite numbers, or else a text", name));
  }
}

RAYTRAIN_INLINE auto SimpleImputer::transform(Dataset const& dataset) const -> Dataset {
  auto const* const attempted = "SimpleImputer::transform";
  detail::check_fitted(is_fitted(), type_name, "transform");
  auto result = dataset;
  for (auto const& name : columns) {
    auto const& fill = fills.at(name);
    auto const column = fill.text ? detail::with_missing_texts(dataset.column(name)) : dataset.column(name);
    if (column.is_text() != fill.text.has_value()) {
      throw Error{Errc::invalid_data, attempted,
                  fmt::format("column '{}' holds {}, and held {} when it was learnt from", name,
                              column.is_text() ? "text" : "numbers", column.is_text() ? "numbers" : "text"),
                  "give it columns of the kind that fit was given"};
    }
    if (fill.text) {
      result = result.with_column(detail::filled_texts(column, *fill.text));
    } else if (detail::holds_integers(column)) {
      detail::check_row_values(column, fill.numbers.size(), attempted);
    } else {
      result = detail::with_changed_values(result, name, fill.numbers.size(), attempted,
                                           [&numbers = fill.numbers](double value, std::size_t place) {
                                             return std::isnan(value) ? numbers[place] : value;
                                           });
    }
  }
  return result;
}

}  // namespace raytrain
