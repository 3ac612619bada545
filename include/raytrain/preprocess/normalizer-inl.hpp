// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/float_columns.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/normalizer.hpp>

namespace raytrain {

namespace detail {

/// Adds `add(length, value)` of a column's values to the lengths of its rows, and 0 of a missing one.
template <class Add>
void add_lengths(Column const& column, std::vector<double>& lengths, Add const& add) {
  auto const width = column.row_values();
  column.visit([&]<Element T>(std::span<T const> values) {
    for (std::size_t row = 0; row < lengths.size(); ++row) {
      for (std::size_t place = 0; place < width; ++place) {
        auto const value = as_double(values[row * width + place]);
        lengths[row] = add(lengths[row], std::isnan(value) ? 0 : std::abs(value));
      }
    }
  });
}

/// Also of values whose squares float64 has not.
[[nodiscard]] inline auto length_of_row(Dataset const& dataset, Normalizer const& normalizer, std::size_t row)
    -> double {
  double length = 0;
  for (auto const& name : normalizer.columns) {
    auto const one = dataset.column(name).slice(row, row + 1);
    one.visit([&]<Element T>(std::span<T const> values) {
      for (auto const element : values) {
        auto const value = as_double(element);
        if (!std::isnan(value)) length = std::hypot(length, value);
      }
    });
  }
  return length;
}

/// The norm of each row; 1 of a row of zeros.
[[nodiscard]] inline auto norms_of(Dataset const& dataset, Normalizer const& normalizer, char const* attempted)
    -> std::vector<double> {
  std::vector<double> norms(dataset.rows());
  for (auto const& name : normalizer.columns) {
    auto const& column = dataset.column(name);
    column.check_holds_numbers(attempted);
    switch (normalizer.norm) {
      case Norm::l1: add_lengths(column, norms, [](double sum, double value) { return sum + value; }); break;
      case Norm::l2: add_lengths(column, norms, [](double sum, double value) { return sum + value * value; }); break;
      case Norm::max:
        add_lengths(column, norms, [](double most, double value) { return std::max(most, value); });
        break;
    }
  }
  constexpr double smallest_square = 1e-280;  // below which squares lose digits
  for (std::size_t row = 0; row < norms.size(); ++row) {
    if (normalizer.norm == Norm::l2) {
      auto const has_squares = norms[row] >= smallest_square && std::isfinite(norms[row]);
      norms[row] = has_squares ? std::sqrt(norms[row]) : length_of_row(dataset, normalizer, row);
    }
    if (!std::isfinite(norms[row])) {
      throw Error{Errc::invalid_data, attempted,
                  fmt::format("row {} of the {} that it was given, counted from 0, has values that are too large for a "
                              "norm",
                              row, norms.size()),
                  "bring the columns to other units before, or leave such rows out by filter"};
    }
    if (norms[row] == 0) norms[row] = 1;
  }
  return norms;
}

}  // namespace detail

RAYTRAIN_INLINE void Normalizer::fit(FitRows const& rows) {
  detail::check_columns(columns, type_name);
  for (auto const& name : columns) rows.layout().column(name).check_holds_numbers("Normalizer::fit");
}

RAYTRAIN_INLINE auto Normalizer::transform(Dataset const& dataset) const -> Dataset {
  detail::check_columns(columns, type_name);
  auto const norms = detail::norms_of(dataset, *this, "Normalizer::transform");
  auto result = dataset;
  for (auto const& name : columns) {
    auto const& column = dataset.column(name);
    result = result.with_column(detail::floats_of(
        column, column.row_shape(), [&]<class From, class To>(std::span<From> from, std::span<To> to) {
          auto const width = column.row_values();
          for (std::size_t i = 0; i < from.size(); ++i)
            to[i] = static_cast<To>(detail::as_double(from[i]) / norms[i / width]);
        }));
  }
  return result;
}

}  // namespace raytrain
