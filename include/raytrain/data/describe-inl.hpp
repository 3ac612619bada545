// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/describe.hpp>
#include <raytrain/data/detail/moments.hpp>
#include <raytrain/data/detail/quantile.hpp>
#include <raytrain/data/detail/text_table.hpp>

namespace raytrain::detail {

[[nodiscard]] RAYTRAIN_INLINE auto summary_of(Column const& column) -> ColumnSummary {
  if (column.is_text()) {
    auto const texts = std::ranges::count_if(column.as<std::int32_t>(), [](auto code) { return code >= 0; });
    return {.column = column.name(), .count = static_cast<std::uint64_t>(texts)};
  }
  Moments moments;
  std::vector<double> numbers;
  column.visit([&]<Element T>(std::span<T const> values) {
    numbers.reserve(values.size());
    for (auto const value : values) {
      auto const number = as_double(value);
      if (std::isnan(number)) continue;
      moments.add(number);
      numbers.push_back(number);
    }
  });
  auto const at = [&](double part) {
    return numbers.empty() ? std::numeric_limits<double>::quiet_NaN() : quantile(numbers, part);
  };
  return {.column = column.name(),
          .count = moments.count(),
          .mean = moments.mean(),
          .std = moments.standard_deviation(),
          .min = at(0),
          .lower_quartile = at(0.25),
          .median = at(0.5),
          .upper_quartile = at(0.75),
          .max = at(1)};
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto describe(Dataset const& dataset) -> std::vector<ColumnSummary> {
  std::vector<ColumnSummary> summaries;
  for (auto const& column : dataset.columns()) summaries.push_back(detail::summary_of(column));
  return summaries;
}

RAYTRAIN_INLINE auto to_string(std::span<ColumnSummary const> summaries) -> std::string {
  std::vector<std::vector<std::string>> lines{{"column", "count", "mean", "std", "min", "25%", "50%", "75%", "max"}};
  for (auto const& summary : summaries) {
    auto& line = lines.emplace_back(std::vector{summary.column, fmt::format("{}", summary.count)});
    for (auto const number : {summary.mean, summary.std, summary.min, summary.lower_quartile, summary.median,
                              summary.upper_quartile, summary.max}) {
      line.push_back(fmt::format("{:.6g}", number));
    }
  }
  return detail::text_table(std::move(lines), true);
}

}  // namespace raytrain
