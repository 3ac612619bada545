// SPDX-License-Identifier: Apache-2.0
// What is read no further before it takes all memory.
#include <cstddef>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <raytrain/data/csv.hpp>
#include <raytrain/data/detail/csv_scanner.hpp>
#include <raytrain/data/json_lines.hpp>

#include "../support/thrown_error.hpp"
#include "csv_of.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::csv_of;
using raytrain::testing::thrown_error;

}  // namespace

TEST_CASE("a line of delimiters, or of names, is refused before it takes all memory") {
  constexpr std::size_t most_fields = std::size_t{1} << 22U;
  auto const commas = std::string(most_fields, ',');
  check_contains(thrown_error([&] { (void)csv_of(commas + "\n"); }),
                 "line 1 has more than 4194304 fields; look whether its lines end");
  check_contains(thrown_error([&] { (void)csv_of("\n" + commas, {.header = false}); }),
                 "line 2 has more than 4194304 fields");
  check_contains(thrown_error([&] { (void)csv_of(commas.substr(1) + "\n"); }), "two columns are named ''");
  std::string names = "{\"a\":0";
  for (auto i = 0; i < 1 << 20; ++i) names += fmt::format(",\"{}\":1", i);
  check_contains(thrown_error([&] { (void)parse_json_lines(names + "}"); }),
                 "line 1: more than 1048576 names come; keep those that you need");
}

TEST_CASE("a quote that is never closed is refused with its line, before it takes all memory") {
  detail::CsvScanner scanner{','};
  auto const nothing = [](auto const&...) {};
  scanner.feed("a,b\n1,\"", nothing, nothing);
  std::string const piece(std::size_t{1} << 20U, 'x');
  auto pieces = 0;
  for (; pieces < 1'000 && !scanner.problem(); ++pieces) scanner.feed(piece, nothing, nothing);
  CHECK(pieces == 257);
  check_contains(scanner.problem().value_or(""), "line 2: a field has more than 268435456 bytes");
}
