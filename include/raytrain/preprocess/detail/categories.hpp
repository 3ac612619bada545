// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/missing_texts.hpp>
#include <raytrain/preprocess/detail/values_of_codes.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/handle_unknown.hpp>

namespace raytrain::detail {

/// Number of no category: of a value that is missing, was left out when it was learnt from, or is unknown and ignored.
inline constexpr std::int32_t no_category = -1;

/// What an encoder has learnt of a column: different values in ascending order, which are numbered from 0.
struct Categories {
  std::vector<std::string> texts{};  ///< Of a column of text; else empty.
  std::vector<double> numbers{};     ///< Of a column of numbers; else empty.
  bool has_others = false;           ///< Whether there were more, which the setting `max_categories` has left out.

  [[nodiscard]] auto is_text() const noexcept -> bool { return !texts.empty(); }
  [[nodiscard]] auto size() const noexcept -> std::size_t { return texts.size() + numbers.size(); }

  /// Or `no_category`.
  [[nodiscard]] auto number_of(std::string_view text) const noexcept -> std::int32_t;
  [[nodiscard]] auto number_of(double number) const noexcept -> std::int32_t;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(texts), CEREAL_NVP(numbers), CEREAL_NVP(has_others));
  }
};

/// By the column's name.
using CategoriesByColumn = std::map<std::string, Categories>;

/// The values that come most often, at most `most`; of those that come equally often the smaller ones. `type_name`:
/// "OneHotEncoder".
///
/// Errors: `invalid_data` where there are none, and for a text that is not UTF-8, which JSON cannot hold.
[[nodiscard]] auto categories_of(ValueCounts counts, std::optional<std::size_t> most, std::string const& column,
                                 std::string_view type_name) -> Categories;

/// Of the rows of all workers; a group operation.
///
/// Errors: as `value_counts` and `categories_of`; `invalid_data` for whole numbers that a double cannot tell apart.
[[nodiscard]] auto learn_categories(FitRows const& rows, std::string const& column, std::optional<std::size_t> most,
                                    std::string_view type_name) -> Categories;

/// The same of each column. Errors: also `invalid_config` for no column, one that is named twice, and `most` of 0.
[[nodiscard]] auto learn_categories(FitRows const& rows, std::vector<std::string> const& columns,
                                    std::optional<std::size_t> most, std::string_view type_name) -> CategoriesByColumn;

/// Errors: `invalid_data` unless they are texts or finite numbers, which ascend. `subject`: "column 'city'".
void check_learnt_categories(Categories const& categories, std::string_view type_name, std::string_view field,
                             std::string_view subject);

/// The same of each column, which has at least one.
void check_learnt_categories(CategoriesByColumn const& categories, std::string_view type_name, std::string_view field);

/// Errors: `invalid_config` for a setting, "max_categories", of 0.
void check_not_zero(std::optional<std::size_t> most, std::string_view type_name, std::string_view setting);

/// What an encoder does with a value that is not among the categories: refuses it, or takes it for `no_category`, also
/// where fit has left others out.
[[nodiscard]] inline auto refuses_unknown(HandleUnknown handle_unknown, Categories const& categories) noexcept -> bool {
  return handle_unknown == HandleUnknown::error && !categories.has_others;
}

/// Errors: `invalid_data`, always: the value is none that was learnt.
[[noreturn]] void refuse_unknown(std::string const& column, std::string_view value, std::string const& attempted);
[[noreturn]] void refuse_unknown(std::string const& column, double value, std::string const& attempted);

/// Errors: `invalid_data` for a column of text where numbers were learnt, or the other way round, and for one of
///         several values a row.
void check_kind(Column const& column, Categories const& categories, std::string const& attempted);

/// Looks numbers up: in a table where they are whole numbers that lie close together, and there are many to look up.
class NumberLookup {
 public:
  NumberLookup(Categories const& categories, std::size_t rows);

  /// Or `no_category`, as of NaN.
  [[nodiscard]] auto operator()(double number) const noexcept -> std::int32_t {
    if (table_.empty()) return categories_.number_of(number);
    auto const place = number - first_;
    if (!(place >= 0 && place < static_cast<double>(table_.size()))) return no_category;
    auto const found = table_[static_cast<std::size_t>(place)];
    return found != no_category && categories_.numbers[static_cast<std::size_t>(found)] == number ? found : no_category;
  }

 private:
  Categories const& categories_;
  double first_ = 0;
  std::vector<std::int32_t> table_;
};

/// Calls `work(row, number)` for each row: the number of its category, or `no_category`. Each different text is looked
/// up once. Where texts were learnt, a column of NaN alone is one of missing texts.
///
/// Errors: as `check_kind`; `invalid_data` for an unknown value, by `refuses_unknown`.
template <class Work>
void for_each_category(Column const& given, Categories const& categories, HandleUnknown handle_unknown,
                       std::string const& attempted, Work const& work) {
  auto const column = categories.is_text() ? with_missing_texts(given) : given;
  check_kind(column, categories, attempted);
  auto const refuses = refuses_unknown(handle_unknown, categories);
  if (column.is_text()) {
    constexpr std::int32_t not_looked_up = -2;
    auto const texts = column.categories();
    auto const codes = column.as<std::int32_t>();
    ValuesOfCodes<std::int32_t> numbers{column, not_looked_up};
    for (std::size_t row = 0; row < codes.size(); ++row) {
      if (codes[row] < 0) {
        work(row, no_category);
        continue;
      }
      auto& number = numbers[codes[row]];
      if (number == not_looked_up) {
        auto const& text = texts[static_cast<std::size_t>(codes[row])];
        number = categories.number_of(text);
        if (number == no_category && refuses) refuse_unknown(column.name(), text, attempted);
      }
      work(row, number);
    }
    return;
  }
  NumberLookup const look_up{categories, column.rows()};
  column.visit([&]<Element T>(std::span<T const> values) {
    for (std::size_t row = 0; row < values.size(); ++row) {
      auto const value = as_double(values[row]);
      auto const number = value == value ? look_up(value) : no_category;
      if (number == no_category && refuses && value == value) refuse_unknown(column.name(), value, attempted);
      work(row, number);
    }
  });
}

/// The values of these numbers of categories: texts, or float64. `no_category` gives a missing text, or NaN.
[[nodiscard]] auto decoded(std::string const& column, Categories const& categories,
                           std::vector<std::int32_t> const& numbers) -> Column;

/// The same of a column of numbers of categories, where NaN and `no_category` stand for a missing value.
///
/// Errors: `invalid_data` for text, for several values a row, and for what is no number of a category.
[[nodiscard]] auto decoded(Column const& column, Categories const& categories, std::string const& attempted) -> Column;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/categories-inl.hpp>
#endif
