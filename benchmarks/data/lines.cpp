// SPDX-License-Identifier: Apache-2.0
// Writes the tables of csv.cpp as lines of JSON and of LIBSVM; or reads both, some times, on all cores, and in CPU time
// on one:
//   lines write NUMBERS MIXED JSON LIBSVM        the last column of numbers is the label; tells what a reader must find
//   lines read NUMBERS MIXED JSON LIBSVM TURNS
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/core/usable_cores.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/data/libsvm.hpp>

#include "turns.hpp"

namespace {

void write_libsvm(raytrain::Dataset const& numbers, std::string const& path) {
  std::string text;
  auto const& columns = numbers.columns();
  for (std::size_t row = 0; row < numbers.rows(); ++row) {
    fmt::format_to(std::back_inserter(text), "{}", columns.back().as<float>()[row]);
    for (std::size_t i = 0; i + 1 < columns.size(); ++i) {
      fmt::format_to(std::back_inserter(text), " {}:{}", i + 1, columns[i].as<float>()[row]);
    }
    text += '\n';
  }
  std::ofstream file{path, std::ios::binary};
  file.exceptions(std::ios::badbit | std::ios::failbit);
  file << text;
}

auto has_numbers(raytrain::Dataset const& read, raytrain::Dataset const& numbers) -> bool {
  auto const& columns = numbers.columns();
  auto const features = read.column("features").as<float>();
  auto const width = columns.size() - 1;
  if (read.rows() != numbers.rows() || features.size() != width * read.rows()) return false;
  for (std::size_t row = 0; row < read.rows(); ++row) {
    if (read.column("label").as<float>()[row] != columns.back().as<float>()[row]) return false;
    for (std::size_t i = 0; i < width; ++i) {
      if (features[row * width + i] != columns[i].as<float>()[row]) return false;
    }
  }
  return true;
}

auto sum_of(raytrain::Dataset const& data, std::string const& column) -> double {
  double sum = 0;
  for (auto const value : data.column(column).as<float>()) sum += static_cast<double>(value);
  return sum;
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  std::vector<std::string> const arguments{argv + 1, argv + argc};
  auto const writes = arguments.size() == 5 && arguments[0] == "write";
  if (!writes && (arguments.size() != 6 || arguments[0] != "read")) {
    throw std::invalid_argument{"arguments: write NUMBERS MIXED JSON LIBSVM, or read NUMBERS MIXED JSON LIBSVM TURNS"};
  }
  auto const numbers = raytrain::read_csv(arguments[1]);
  auto const mixed = raytrain::read_csv(arguments[2]);
  if (writes) {
    raytrain::write_json_lines(mixed, arguments[3]);
    write_libsvm(numbers, arguments[4]);
    fmt::print(R"({{"rows": {}, "json": {}, "libsvm": {}}})", numbers.rows(), sum_of(mixed, "price"),
               sum_of(numbers, numbers.columns().back().name()));
    return 0;
  }
  auto const read_ms = [&](double (*clock)()) {
    std::vector<double> json_ms;
    std::vector<double> libsvm_ms;
    for (int turn = 0; turn < std::stoi(arguments[5]); ++turn) {
      raytrain::Dataset data;
      json_ms.push_back(time_ms(clock, [&] { data = raytrain::read_json_lines(arguments[3]); }));
      if (data.digest() != mixed.digest()) throw std::runtime_error{"other values were read from " + arguments[3]};
      libsvm_ms.push_back(time_ms(clock, [&] { data = raytrain::read_libsvm(arguments[4]); }));
      if (!has_numbers(data, numbers)) throw std::runtime_error{"other values were read from " + arguments[4]};
    }
    return std::pair{median(json_ms), median(libsvm_ms)};
  };
  auto const [json_wall_ms, libsvm_wall_ms] = read_ms(wall_ms);
  raytrain::bind_to_cores({raytrain::usable_cores().back()});
  auto const [json_ms, libsvm_ms] = read_ms(cpu_ms);
  fmt::print(R"({{"json_wall_ms": {}, "libsvm_wall_ms": {}, "json_ms": {}, "libsvm_ms": {}}})", json_wall_ms,
             libsvm_wall_ms, json_ms, libsvm_ms);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "lines: %s\n", error.what());
  return 1;
}
