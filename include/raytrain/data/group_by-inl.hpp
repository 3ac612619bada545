// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/moments.hpp>
#include <raytrain/data/detail/order_keys.hpp>
#include <raytrain/data/detail/quantile.hpp>
#include <raytrain/data/group_by.hpp>

namespace raytrain::detail {

[[nodiscard]] RAYTRAIN_INLINE auto name_of(Aggregate what) -> std::string_view {
  switch (what) {
    case Aggregate::count: return "count";
    case Aggregate::sum: return "sum";
    case Aggregate::mean: return "mean";
    case Aggregate::min: return "min";
    case Aggregate::max: return "max";
    case Aggregate::std: return "std";
    case Aggregate::quantile: return "quantile";
    case Aggregate::unique: return "unique";
    case Aggregate::abs_max: return "abs_max";
  }
  return "unknown";
}

template <class T>
[[nodiscard]] auto different_values(std::vector<T>& values) -> std::int64_t {
  std::ranges::sort(values);
  return std::ranges::unique(values).begin() - values.begin();
}

/// Of the texts of a column, group by group. Errors: `invalid_data` for what there is not of texts.
[[nodiscard]] RAYTRAIN_INLINE auto aggregated_texts(Column const& column, RowGroups const& groups, std::string name,
                                                    Aggregate what) -> Column {
  auto const is_extreme = what == Aggregate::min || what == Aggregate::max;
  if (what != Aggregate::count && what != Aggregate::unique && !is_extreme) {
    column.check_holds_numbers("group_by, " + name);
  }
  auto const codes = column.as<std::int32_t>();
  std::vector<std::int64_t> counts(groups.size());
  auto const extremes = std::make_shared<std::vector<std::int32_t>>(groups.size(), -1);
  std::vector<std::int32_t> there;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    there.clear();
    for (auto at = groups.begins[i]; at < groups.begins[i + 1]; ++at) {
      if (auto const code = codes[groups.rows[at]]; code >= 0) there.push_back(code);
    }
    counts[i] = what == Aggregate::unique ? different_values(there) : static_cast<std::int64_t>(there.size());
    if (there.empty() || !is_extreme) continue;
    (*extremes)[i] = what == Aggregate::min ? std::ranges::min(there) : std::ranges::max(there);
  }
  if (!is_extreme) return {std::move(name), std::move(counts)};
  auto format = column.format();
  format.name = std::move(name);
  return {std::move(format), {extremes, reinterpret_cast<std::byte const*>(extremes->data())}, groups.size()};
}

/// The values of a column that are no NaN, group by group.
template <Element T>
class GroupedValues {
 public:
  GroupedValues(std::span<T const> values, RowGroups const& groups, std::string name)
      : values_{values}, groups_{groups}, name_{std::move(name)} {}

  [[nodiscard]] auto aggregated(Aggregate what, double part) const -> Column {
    switch (what) {
      case Aggregate::count: return counts();
      case Aggregate::sum: return sums();
      case Aggregate::mean: return of_moments([](Moments const& moments) { return moments.mean(); });
      case Aggregate::min: return extremes(false);
      case Aggregate::max: return extremes(true);
      case Aggregate::std: return of_moments([](Moments const& moments) { return moments.standard_deviation(); });
      case Aggregate::quantile: return quantiles(part);
      case Aggregate::unique: return unique_counts();
      case Aggregate::abs_max: return largest_absolutes();
    }
    return counts();
  }

 private:
  template <class Take>
  void each_of(std::size_t group, Take const& take) const {
    for (auto at = groups_.begins[group]; at < groups_.begins[group + 1]; ++at) {
      auto const value = values_[groups_.rows[at]];
      if (std::integral<T> || !std::isnan(as_double(value))) take(value);
    }
  }

  [[nodiscard]] auto counts() const -> Column {
    std::vector<std::int64_t> counts(groups_.size());
    for (std::size_t i = 0; i < counts.size(); ++i) each_of(i, [&](T) { ++counts[i]; });
    return {name_, std::move(counts)};
  }

  [[nodiscard]] auto sums() const -> Column {
    if constexpr (std::integral<T>) {
      __extension__ using Wide = __int128;
      std::vector<std::int64_t> sums(groups_.size());
      for (std::size_t i = 0; i < sums.size(); ++i) {
        Wide sum = 0;
        each_of(i, [&](T value) { sum += value; });
        sums[i] = as_int64(sum, "a sum");
      }
      return {name_, std::move(sums)};
    } else {
      return of_moments([](Moments const& moments) { return moments.sum(); });
    }
  }

  template <class Wide>
  [[nodiscard]] auto as_int64(Wide value, char const* what) const -> std::int64_t {
    auto const result = static_cast<std::int64_t>(value);
    if (result == value) return result;
    throw Error{Errc::invalid_data, "group_by, " + name_,
                fmt::format("{} is {:.4g}, which no int64 holds", what, static_cast<double>(value)),
                "convert the column to float64 first"};
  }

  [[nodiscard]] auto quantiles(double part) const -> Column {
    std::vector<double> results(groups_.size(), std::numeric_limits<double>::quiet_NaN());
    std::vector<double> values;
    for (std::size_t i = 0; i < results.size(); ++i) {
      values.clear();
      each_of(i, [&](T value) { values.push_back(as_double(value)); });
      if (!values.empty()) results[i] = quantile(values, part);
    }
    return {name_, std::move(results)};
  }

  [[nodiscard]] auto unique_counts() const -> Column {
    std::vector<std::int64_t> counts(groups_.size());
    std::vector<std::conditional_t<std::integral<T>, T, double>> values;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      values.clear();
      each_of(i, [&](T value) {
        if constexpr (std::integral<T>) {
          values.push_back(value);
        } else {
          values.push_back(as_double(value));
        }
      });
      counts[i] = different_values(values);
    }
    return {name_, std::move(counts)};
  }

  [[nodiscard]] auto largest_absolutes() const -> Column {
    if constexpr (std::integral<T>) {
      __extension__ using Wide = __int128;
      std::vector<std::int64_t> results(groups_.size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        Wide largest = 0;
        each_of(i, [&](T value) {
          auto const wide = Wide{value};
          largest = std::max(largest, wide < 0 ? -wide : wide);
        });
        results[i] = as_int64(largest, "an absolute value");
      }
      return {name_, std::move(results)};
    } else {
      std::vector<double> results(groups_.size(), std::numeric_limits<double>::quiet_NaN());
      for (std::size_t i = 0; i < results.size(); ++i) {
        each_of(i, [&](T value) { results[i] = std::fmax(results[i], std::abs(as_double(value))); });
      }
      return {name_, std::move(results)};
    }
  }

  template <class Of>
  [[nodiscard]] auto of_moments(Of const& of) const -> Column {
    std::vector<double> results(groups_.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      Moments moments;
      each_of(i, [&](T value) { moments.add(as_double(value)); });
      results[i] = of(moments);
    }
    return {name_, std::move(results)};
  }

  [[nodiscard]] auto extremes(bool largest) const -> Column {
    std::vector<T> results(groups_.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      auto& best = results[i];
      auto is_first = true;
      if constexpr (!std::integral<T>) best = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
      each_of(i, [&](T value) {
        if (std::exchange(is_first, false) || (largest ? is_less(best, value) : is_less(value, best))) best = value;
      });
    }
    return {name_, std::move(results)};
  }

  [[nodiscard]] static auto is_less(T left, T right) noexcept -> bool {
    if constexpr (std::integral<T>) {
      return left < right;
    } else {
      return as_double(left) < as_double(right);
    }
  }

  std::span<T const> values_;
  RowGroups const& groups_;
  std::string name_;
};

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto group_by(Dataset dataset, std::vector<std::string> const& columns) -> GroupedDataset {
  auto keys = detail::key_columns(dataset, columns, "group_by");
  auto groups = detail::row_groups(keys);
  return {std::move(dataset), std::move(keys), std::move(groups)};
}

RAYTRAIN_INLINE auto GroupedDataset::aggregate(std::vector<Aggregation> const& aggregations) const -> Dataset {
  if (aggregations.empty()) {
    throw Error{Errc::invalid_call, "group_by", "got no aggregation", "write for instance {{Aggregate::count}}"};
  }
  std::vector<std::uint64_t> firsts;
  for (std::size_t i = 0; i < groups_.size(); ++i) firsts.push_back(groups_.rows[groups_.begins[i]]);
  auto table = Dataset::from_columns(keys_).select(firsts);
  for (auto const& [what, column, wanted_name, part] : aggregations) {
    auto const name = wanted_name.empty() ? fmt::format("{}({})", detail::name_of(what), column) : wanted_name;
    auto const is_of_rows = what == Aggregate::count && column.empty();
    if (column.empty() && !is_of_rows) {
      throw Error{Errc::invalid_call, "group_by, " + name, "names no column",
                  fmt::format("write {{Aggregate::{}, \"COLUMN\"}}", detail::name_of(what))};
    }
    if (std::ranges::find(table.columns(), name, &Column::name) != table.columns().end()) {
      throw Error{Errc::invalid_call, "group_by", fmt::format("two columns would be named '{}'", name),
                  "give one of them another Aggregation::name"};
    }
    if (what == Aggregate::quantile && !(part >= 0 && part <= 1)) {
      throw Error{Errc::invalid_call, "group_by, " + name, fmt::format("the quantile {} is not from 0 to 1", part),
                  "write one that is, as 0.5 for the median"};
    }
    if (is_of_rows) {
      std::vector<std::int64_t> counts;
      for (std::size_t i = 0; i < groups_.size(); ++i) counts.push_back(static_cast<std::int64_t>(groups_.rows_of(i)));
      table = table.add_column({name, std::move(counts)});
      continue;
    }
    auto const& source = dataset_.column(column);
    source.check_one_value_a_row("group_by, " + name);
    if (source.is_text()) {
      table = table.add_column(detail::aggregated_texts(source, groups_, name, what));
      continue;
    }
    source.visit([&, aggregate = what, of = part]<Element T>(std::span<T const> values) {
      auto made = detail::GroupedValues<T>{values, groups_, name}.aggregated(aggregate, of);
      auto const is_value = aggregate == Aggregate::min || aggregate == Aggregate::max;
      table = table.add_column(is_value && source.is_boolean() ? made.numbers_as_booleans() : std::move(made));
    });
  }
  return table;
}

}  // namespace raytrain
