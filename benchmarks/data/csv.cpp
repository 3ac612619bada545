// SPDX-License-Identifier: Apache-2.0
// Writes a table of numbers, and one of numbers, texts and missing values; or reads both back, some times:
//   csv write NUMBERS MIXED ROWS        tells what a reader must find
//   csv read NUMBERS MIXED ROWS TURNS   time of each reading on all cores, and CPU time of it on one
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/core/usable_cores.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/write_csv.hpp>

#include "turns.hpp"

namespace {

/// A column of what `make` makes of random numbers from 0 to 1, where missing values are NaN.
template <class Make>
auto column_of_numbers(std::string name, std::uint64_t seed, std::size_t rows, Make const& make) -> raytrain::Column {
  std::vector<float> values(rows);
  for (std::size_t row = 0; row < rows; ++row) values[row] = static_cast<float>(make(random_at(seed * rows + row)));
  return {std::move(name), std::move(values)};
}

template <class Make>
auto column_of_texts(std::string name, std::uint64_t seed, std::size_t rows, Make const& make) -> raytrain::Column {
  std::vector<std::optional<std::string>> texts(rows);
  for (std::size_t row = 0; row < rows; ++row) texts[row] = make(random_at(seed * rows + row));
  return raytrain::Column::of_texts(std::move(name), texts);
}

/// Ten columns of numbers with up to nine digits.
auto make_numbers(std::size_t rows) -> raytrain::Dataset {
  std::vector<raytrain::Column> columns;
  for (std::uint64_t i = 0; i < 10; ++i) {
    columns.push_back(column_of_numbers(fmt::format("x{}", i), i, rows, [](double x) { return 2000 * x - 1000; }));
  }
  return raytrain::Dataset::from_columns(std::move(columns));
}

/// As a shop may have it: whole numbers, prices, texts of few and of many categories, some quoted, some missing.
auto make_mixed(std::size_t rows) -> raytrain::Dataset {
  using Text = std::optional<std::string>;
  auto const missing = std::numeric_limits<double>::quiet_NaN();
  return raytrain::Dataset::from_columns({
      column_of_numbers("customer", 0, rows, [](double x) { return std::floor(1e6 * x); }),
      column_of_numbers("count", 1, rows, [](double x) { return std::floor(20 * x); }),
      column_of_numbers("price", 2, rows, [](double x) { return std::floor(1e5 * x) / 100; }),
      column_of_numbers("weight", 3, rows, [&](double x) { return x < 0.1 ? missing : 50 * x; }),
      column_of_numbers("rating", 4, rows, [&](double x) { return x < 0.5 ? missing : std::floor(10 * x) / 2; }),
      column_of_texts("paid", 5, rows, [](double x) { return Text{x < 0.3 ? "no" : "yes"}; }),
      column_of_texts("city", 6, rows,
                      [](double x) { return x < 0.05 ? Text{} : fmt::format("city {}, north", std::floor(16 * x)); }),
      column_of_texts("product", 7, rows, [](double x) { return fmt::format("product-{:05}", std::floor(1000 * x)); }),
  });
}

/// What a reader must find in a column, as JSON.
auto summary(raytrain::Column const& column) -> std::string {
  std::size_t missing = 0;
  if (column.is_text()) {
    std::size_t length = 0;
    for (std::size_t row = 0; row < column.rows(); ++row) {
      auto const text = column.text(row);
      if (text)
        length += text->size();
      else
        ++missing;
    }
    return fmt::format(R"("{}": {{"missing": {}, "categories": {}, "length": {}}})", column.name(), missing,
                       column.categories().size(), length);
  }
  double sum = 0;
  for (auto const value : column.as<float>()) {
    if (std::isnan(value))
      ++missing;
    else
      sum += static_cast<double>(value);
  }
  return fmt::format(R"("{}": {{"missing": {}, "sum": {}}})", column.name(), missing, sum);
}

auto summary(raytrain::Dataset const& data) -> std::string {
  std::vector<std::string> columns;
  for (auto const& column : data.columns()) columns.push_back(summary(column));
  return fmt::format("{{{}}}", fmt::join(columns, ", "));
}

/// Numbers as float64, cut to float32, or as they are.
auto as_float32(raytrain::Dataset const& data) -> raytrain::Dataset {
  auto cut = data;
  for (auto const& column : data.columns()) {
    if (column.type() != raytrain::ElementType::float64) continue;
    auto const values = column.as<double>();
    std::vector<float> narrow(values.size());
    for (std::size_t row = 0; row < narrow.size(); ++row) narrow[row] = static_cast<float>(values[row]);
    cut = cut.with_column({column.name(), std::move(narrow)});
  }
  return cut;
}

/// Time of a reading by a clock, which must give what `written` has.
auto read_ms(double (*clock)(), std::string const& path, raytrain::CsvOptions const& options,
             raytrain::Dataset const& written, int turns) -> double {
  std::vector<double> times;
  for (int turn = 0; turn < turns; ++turn) {
    raytrain::Dataset data;
    times.push_back(time_ms(clock, [&] { data = raytrain::read_csv(path, options); }));
    if (as_float32(data).digest() != written.digest()) throw std::runtime_error{"other values were read from " + path};
  }
  return median(times);
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  std::vector<std::string> const arguments{argv + 1, argv + argc};
  auto const writes = arguments.size() == 4 && arguments[0] == "write";
  if (!writes && (arguments.size() != 5 || arguments[0] != "read")) {
    throw std::invalid_argument{"arguments: write NUMBERS MIXED ROWS, or read NUMBERS MIXED ROWS TURNS"};
  }
  auto const rows = std::stoul(arguments[3]);
  auto const numbers = make_numbers(rows);
  auto const mixed = make_mixed(rows);
  if (writes) {
    raytrain::write_csv(numbers, arguments[1]);
    raytrain::write_csv(mixed, arguments[2]);
    fmt::print("{{\"numbers\": {}, \"mixed\": {}}}\n", summary(numbers), summary(mixed));
    return 0;
  }
  auto const turns = std::stoi(arguments[4]);
  raytrain::CsvOptions as_float64;
  for (auto const& name : numbers.column_names()) as_float64.types[name] = raytrain::CsvType::float64;
  auto const numbers_wall_ms = read_ms(wall_ms, arguments[1], {}, numbers, turns);
  auto const mixed_wall_ms = read_ms(wall_ms, arguments[2], {}, mixed, turns);
  raytrain::bind_to_cores({raytrain::usable_cores().back()});
  auto const numbers_ms = read_ms(cpu_ms, arguments[1], {}, numbers, turns);
  auto const float64_ms = read_ms(cpu_ms, arguments[1], as_float64, numbers, turns);
  auto const mixed_ms = read_ms(cpu_ms, arguments[2], {}, mixed, turns);
  fmt::print(R"({{"numbers_wall_ms": {}, "mixed_wall_ms": {}, "numbers_ms": {}, "float64_ms": {}, "mixed_ms": {}}})",
             numbers_wall_ms, mixed_wall_ms, numbers_ms, float64_ms, mixed_ms);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "csv: %s\n", error.what());
  return 1;
}
