// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/detail/csv_pieces.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/csv.hpp>
#include <raytrain/data/detail/csv_scanner.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/join_rows.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "same_rows.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::check_same_rows;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

constexpr auto whole_file = std::numeric_limits<std::size_t>::max();

/// What a scanner says of a text, and at which line: fields, ends of lines, the problem.
auto scanned(std::string_view text, detail::CsvScanner& scanner) -> std::vector<std::string> {
  std::vector<std::string> said;
  auto const field = [&](std::string_view it) { said.push_back(fmt::format("{}: {}", scanner.line_number(), it)); };
  auto const line = [&] { said.push_back(fmt::format("{} ends", scanner.line_number())); };
  scanner.feed(text, field, line);
  scanner.finish(field, line);
  if (scanner.problem()) said.push_back(*scanner.problem());
  return said;
}

/// As the first `piece_bytes` bytes would be read by the file's first reader.
auto scanned_in_pieces(std::filesystem::path const& path, std::size_t piece_bytes) -> std::vector<std::string> {
  detail::DataFile file{path};
  detail::CsvPieces pieces{file, {.piece_bytes = piece_bytes}};
  std::vector<std::string> said;
  std::uint64_t rows = 0;
  while (auto const piece = pieces.next()) {
    CHECK(piece->first_row == rows);
    auto scanner = detail::CsvScanner::from_line(',', piece->line_number);
    for (auto& text : scanned(piece->text, scanner)) {
      if (text.ends_with(" ends")) ++rows;
      said.push_back(std::move(text));
    }
    if (piece->rows) CHECK(piece->first_row + *piece->rows == rows);
  }
  return said;
}

TEST_CASE("pieces of a file have the fields, rows, lines and the first problem of the whole, wherever they are cut") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "table.csv";
  std::mt19937_64 random{raytrain::testing::random_seed()};
  for (int repeat = 0; repeat < 2000; ++repeat) {
    // Mostly with quotes that close.
    constexpr std::string_view alphabet = "ab,,\n\n\n\r";
    std::string text;
    for (auto length = random() % 60; length > 0; --length) {
      auto const what = random() % 12;
      text += what == 0   ? std::string{"\"q\n\"\"\r\n,\""}
              : what == 1 ? std::string{"\r\n"}
              : what == 2 ? std::string(1, random() % 4 == 0 ? '"' : 'c')
                          : std::string(1, alphabet[random() % alphabet.size()]);
    }
    CAPTURE(text);
    write_text(path, text);
    detail::CsvScanner scanner{','};
    auto const whole = scanned(text, scanner);
    for (std::size_t const bytes : {1, 2, 7, 31}) CHECK(scanned_in_pieces(path, bytes) == whole);
  }
}

TEST_CASE("pieces are cut behind a line's end that is in no quotes, and have the number of their first line") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "table.csv";
  write_text(path, "1,2\n3,\"4\n5\n6\"\n\n7,8\r\n9,10");
  detail::DataFile file{path};
  detail::CsvPieces pieces{file, {.text = "a,b\n", .line_number = 3, .piece_bytes = 5}};
  std::vector<std::pair<std::string, std::uint64_t>> cut;
  while (auto const piece = pieces.next()) cut.emplace_back(piece->text, piece->line_number);
  CHECK(cut == std::vector<std::pair<std::string, std::uint64_t>>{
                   {"a,b\n1,2\n", 3}, {"3,\"4\n5\n6\"\n\n", 5}, {"7,8\r\n", 9}, {"9,10", 10}});
}

/// Rows of whole numbers, gaps, and texts of which some have quotes, ends of lines and texts that no other row has.
auto table_text(std::size_t rows, std::mt19937_64& random) -> std::string {
  std::string text = "id,value,city,note\n";
  for (std::size_t row = 0; row < rows; ++row) {
    text += fmt::format("{},{},", row, row % 7 == 3 ? "" : fmt::format("{:.4f}", 1e-4 * static_cast<double>(row)));
    text += row % 11 == 5 ? "NA," : fmt::format("city {},", random() % 100);
    text += row % 1000 == 1 ? fmt::format("\"a \"\"quote\"\",\nof {}\"\n", row) : row % 3 == 0 ? "x\r\n" : "y\n";
  }
  return text;
}

TEST_CASE("several threads read a large file as one does, all at once and in blocks") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "table.csv";
  std::mt19937_64 random{raytrain::testing::random_seed()};
  auto const text = table_text(300'000, random);
  REQUIRE(text.size() > (std::size_t{5} << 20U));  // where threads are used
  write_text(path, text);
  CsvOptions const options{.types = {{"id", CsvType::int64}}};
  auto const by_one = *detail::CsvFile{path, options, 1}.next(whole_file);
  CHECK(by_one.rows() == 300'000);
  check_same_rows(by_one, *detail::CsvFile{path, options, 3}.next(whole_file));
  auto const size = 1'000 + static_cast<std::size_t>(random() % 20'000);
  CAPTURE(size);
  for (auto const threads : {1, 3}) {
    detail::CsvFile file{path, options, threads};
    std::vector<Dataset> blocks;
    while (auto block = file.next(size)) {
      CHECK(block->rows() == std::min(size, 300'000 - blocks.size() * size));  // whoever reads them, cut alike
      blocks.push_back(*std::move(block));
    }
    check_same_rows(by_one, detail::join_rows(blocks, "join"));
  }
}

TEST_CASE("several threads leave out a byte order mark, and refuse one of UTF-16, where a large file has no header") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "table.csv";
  std::string rows;
  while (rows.size() < (std::size_t{5} << 20U)) rows += "Oslo,1\n";
  CsvOptions const options{
      .header = false, .column_names = {"city", "n"}, .types = {{"city", CsvType::text}, {"n", CsvType::float32}}};
  write_text(path, "\xEF\xBB\xBF" + rows);
  auto const data = *detail::CsvFile{path, options, 3}.next(whole_file);
  CHECK(data.column("city").categories().size() == 1);
  CHECK(data.column("city").text(0) == "Oslo");
  write_text(path, "\xFF\xFE" + rows);
  check_contains(thrown_error([&] { (void)detail::CsvFile{path, options, 3}.next(whole_file); }), "UTF-16");
}

TEST_CASE("a column whose first text comes late in a large file is of text, with several threads, too") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "table.csv";
  std::string text = "a,b\n";
  for (int row = 0; row < 1'000'000; ++row) text += row == 700'000 ? "1,late\n" : "12,NA\n";
  write_text(path, text);
  CsvOptions const options;
  auto const data = *detail::CsvFile{path, options, 3}.next(whole_file);
  CHECK(data.rows() == 1'000'000);
  CHECK(data.column("b").text(700'000) == "late");
  CHECK(data.column("b").text(700'001) == std::nullopt);
}

TEST_CASE("several threads name the line of the first thing that is wrong in a large file") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "table.csv";
  std::mt19937_64 random{raytrain::testing::random_seed()};
  auto const good = table_text(250'000, random);
  auto const lines = static_cast<std::size_t>(std::ranges::count(good, '\n'));
  CsvOptions const options;
  for (auto const& [tail, said] : std::map<std::string, std::string>{
           {"x,1,a,b\n", fmt::format("line {}, column 'id': 'x' is not a number", lines + 1)},
           {"1,1,a\n", fmt::format("line {} has 3 fields, and there are 4 columns", lines + 1)},
           {"1,1,a,\"b\n\"\"", fmt::format("line {}: a quoted field does not end", lines + 1)},
           {"1,1,\"a\"b,c\n", fmt::format("line {}: 'b' follows the end of a quoted field", lines + 1)}}) {
    CAPTURE(said);
    auto const closes = tail.ends_with('\n');
    write_text(path, good + tail + (closes ? table_text(100'000, random) + "y,1,a,b\n" : std::string(1 << 20, '\n')));
    check_contains(thrown_error([&] { (void)detail::CsvFile{path, options, 3}.next(whole_file); }), said);
  }
}

}  // namespace
