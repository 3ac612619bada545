// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/detail/growing_column.hpp>
#include <raytrain/data/detail/parse_number.hpp>

namespace raytrain::detail {

template <class T>
[[nodiscard]] auto insert_missing(std::vector<T>& numbers, bool at_begin, std::size_t values) -> bool {
  if constexpr (std::integral<T>) {
    return values == 0;
  } else {
    numbers.insert(at_begin ? numbers.begin() : numbers.end(), values, std::numeric_limits<T>::quiet_NaN());
    return true;
  }
}

[[nodiscard]] inline auto parse_boolean(std::string_view text, std::uint8_t& value) -> bool {
  value = text == "true" || text == "True" || text == "TRUE" || text == "1" ? 1 : 0;
  return value == 1 || text == "false" || text == "False" || text == "FALSE" || text == "0";
}

RAYTRAIN_INLINE void refuse_twice(std::string_view field, std::string_view name) {
  throw Error{Errc::invalid_config, std::string{field}, "names '" + std::string{name} + "' twice",
              "name each column once"};
}

RAYTRAIN_INLINE GrowingColumn::GrowingColumn(std::string name, std::optional<CsvType> type)
    : name_{std::move(name)}, is_inferred_{!type}, is_decided_{type.has_value()} {
  switch (type.value_or(CsvType::float32)) {
    case CsvType::float32: break;
    case CsvType::float64: numbers_ = std::vector<double>{}; break;
    case CsvType::int32: numbers_ = std::vector<std::int32_t>{}; break;
    case CsvType::int64: numbers_ = std::vector<std::int64_t>{}; break;
    case CsvType::text: texts_.emplace(); break;
    case CsvType::boolean: numbers_ = std::vector<std::uint8_t>{}; break;
  }
}

RAYTRAIN_INLINE auto GrowingColumn::add_number(std::string_view text) -> bool {
  if (is_text()) return false;
  is_decided_ = true;
  auto const add = [&]<class T>(std::vector<T>& numbers) {
    auto& value = numbers.emplace_back();
    if constexpr (std::same_as<T, std::uint8_t>) {
      return parse_boolean(text, value);
    } else if constexpr (std::floating_point<T>) {
      return parse_float(text, value);
    } else {
      return parse_number(text, value) == std::errc{};
    }
  };
  // Most columns are of float32, and a call by the table of a variant costs as much as the number.
  if (auto* const numbers = std::get_if<std::vector<float>>(&numbers_)) {
    constexpr float all_whole = 16'777'216;  // up to which float32 has each whole number
    return add(*numbers) && !(is_inferred_ && std::abs(numbers->back()) >= all_whole && is_rounded(text));
  }
  return std::visit(add, numbers_);
}

RAYTRAIN_INLINE auto GrowingColumn::add_text(std::string_view text) -> bool {
  if (!is_decided_) {
    is_decided_ = true;
    texts_.emplace();
    for (auto rows = std::get<std::vector<float>>(numbers_).size(); rows > 0; --rows) texts_->add(std::nullopt);
  }
  if (is_text()) texts_->add(text);
  return is_text();
}

RAYTRAIN_INLINE auto GrowingColumn::add_missing(std::size_t values) -> bool {
  if (!is_text()) return std::visit([&](auto& numbers) { return insert_missing(numbers, false, values); }, numbers_);
  for (; values > 0; --values) texts_->add(std::nullopt);
  return true;
}

RAYTRAIN_INLINE auto GrowingColumn::prepend_missing(std::size_t values) -> bool {
  return std::visit([&](auto& numbers) { return insert_missing(numbers, true, values); }, numbers_);
}

RAYTRAIN_INLINE auto GrowingColumn::without_values() const -> GrowingColumn {
  GrowingColumn column{name_, std::nullopt};
  column.is_inferred_ = is_inferred_;
  column.is_decided_ = is_decided_;
  std::visit([&]<class T>(std::vector<T> const&) { column.numbers_ = std::vector<T>{}; }, numbers_);
  if (texts_) column.texts_.emplace();
  return column;
}

RAYTRAIN_INLINE void GrowingColumn::add_values(GrowingColumn const& part, std::size_t first, std::size_t count) {
  if (texts_) return texts_->add(*part.texts_, first, count);
  std::visit(
      [&]<class T>(std::vector<T>& numbers) {
        auto const values = std::span{std::get<std::vector<T>>(part.numbers_)}.subspan(first, count);
        numbers.insert(numbers.end(), values.begin(), values.end());
      },
      numbers_);
}

RAYTRAIN_INLINE auto GrowingColumn::is_rounded(std::string_view text) const -> bool {
  auto const value = std::get<std::vector<float>>(numbers_).back();
  auto const point = text.find('.');
  auto const is_whole =
      point != std::string_view::npos && text.find_first_not_of('0', point + 1) == std::string_view::npos;
  std::int64_t whole{};
  auto const problem = parse_number(is_whole ? text.substr(0, point) : text, whole);  // also of 20240131.0
  if (problem == std::errc::result_out_of_range) return true;
  return problem == std::errc{} && static_cast<long double>(value) != static_cast<long double>(whole);
}

RAYTRAIN_INLINE auto GrowingColumn::take(RowShape row_shape) -> Column {
  is_decided_ = true;
  if (texts_) return std::exchange(*texts_, TextCodes{}).take(name_);
  return std::visit(
      [&]<class T>(std::vector<T>& numbers) {
        Column column{name_, std::exchange(numbers, {}), std::move(row_shape)};
        return std::same_as<T, std::uint8_t> ? column.numbers_as_booleans() : column;
      },
      numbers_);
}

}  // namespace raytrain::detail
