// SPDX-License-Identifier: Apache-2.0
// Files of lines of which several threads read pieces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/json_table.hpp>
#include <raytrain/data/detail/libsvm_table.hpp>
#include <raytrain/data/detail/line_reader.hpp>
#include <raytrain/data/detail/piece_of_lines.hpp>
#include <raytrain/data/detail/pieces_ahead.hpp>
#include <raytrain/data/detail/row_turns.hpp>
#include <raytrain/data/detail/table_of_lines.hpp>
#include <raytrain/data/json_lines_options.hpp>
#include <raytrain/data/libsvm_options.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "same_rows.hpp"
#include "skipped_blocks.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::BlockReader;
using raytrain::testing::check_contains;
using raytrain::testing::check_readers;
using raytrain::testing::check_same_rows;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

/// The blocks of a file, whose pieces are of so many bytes, and what ended them.
template <class Table, class Options>
auto blocks_by(int threads, std::filesystem::path const& path, Options const& options, std::size_t rows,
               std::size_t bytes = detail::bytes_of_piece) -> std::pair<std::vector<Dataset>, std::string> {
  std::pair<std::vector<Dataset>, std::string> read;
  try {
    Table table{options};
    table.begin_file(path.string());
    detail::RowsOfLines<Table> file{path, {.most_unpack_ratio = 200, .threads = threads, .piece_bytes = bytes}};
    while (true) {
      file.add_to(table, rows);
      if (table.rows() == 0) break;
      read.first.push_back(table.take());
    }
    table.finish();
  } catch (Error const& error) {
    read.second = error.what();
  }
  return read;
}

/// Checks that three threads read what one does, whole, where `read_json_lines` and `read_libsvm` look for what is
/// missing before they make the rows, and in blocks, where the options say all that blocks have to know. Returns the
/// error of the whole.
template <class Table, class Options>
auto check_threads(std::filesystem::path const& path, Options const& options, std::mt19937_64& random,
                   bool in_blocks = true) -> std::string {
  constexpr auto all_rows = std::numeric_limits<std::size_t>::max();
  auto const whole = [&](int threads) -> std::pair<std::optional<Dataset>, std::string> {
    try {
      Table table{options};
      table.begin_file(path.string());
      detail::RowsOfLines<Table> file{path, {.most_unpack_ratio = 200, .threads = threads}};
      file.add_to(table, all_rows);
      table.finish();
      return {table.take(), ""};
    } catch (Error const& error) {
      return {std::nullopt, error.what()};
    }
  };
  REQUIRE(std::filesystem::file_size(path) > detail::least_bytes_of_pieces);
  auto const by_one = whole(1);
  auto const by_three = whole(3);
  CHECK(by_three.second == by_one.second);
  REQUIRE(by_three.first.has_value() == by_one.first.has_value());
  if (by_one.first) check_same_rows(*by_one.first, *by_three.first);
  if (in_blocks) {
    auto const rows = 500 + random() % 20'000;
    CAPTURE(rows);
    auto const blocks_of_one = blocks_by<Table>(1, path, options, rows);
    auto const blocks_of_three = blocks_by<Table>(3, path, options, rows, 30'000 + random() % 1'000'000);
    CHECK(blocks_of_three.second == blocks_of_one.second);
    REQUIRE(blocks_of_three.first.size() == blocks_of_one.first.size());
    for (std::size_t i = 0; i < blocks_of_one.first.size(); ++i) {
      check_same_rows(blocks_of_one.first[i], blocks_of_three.first[i]);
    }
  }
  return by_one.second;
}

/// Objects with whole numbers, gaps, texts, truths and arrays; now and then a line of blanks.
auto json_text(std::size_t rows, std::mt19937_64& random) -> std::string {
  std::string text;
  for (std::size_t row = 0; row < rows; ++row) {
    text += fmt::format(R"({{"id": {}, "pair": [{}, {}])", row, row, random() % 3 == 0 ? "null" : "0.25");
    if (row == 0 || random() % 5 != 0) text += fmt::format(R"(, "city": "city {}\n")", random() % 100);
    if (row == 0 || random() % 7 != 0) text += fmt::format(R"(, "ok": {})", random() % 2 == 0);
    text += '}' + std::string(60, ' ') + (random() % 11 == 0 ? "\r\n" : "\n");
    if (random() % 1'000 == 0) text += " \t\n\n";
  }
  return text;
}

/// With comments, and lines without a row.
auto libsvm_text(std::size_t rows, std::string_view query, std::mt19937_64& random) -> std::string {
  std::string text;
  for (std::size_t row = 0; row < rows; ++row) {
    text +=
        fmt::format("{} {}{}:{} 12:0.5{}\n", row % 2, query, 1 + random() % 11, row, " # 13:7" + std::string(60, ' '));
    if (random() % 1'000 == 0) text += "# a comment\n\n";
  }
  return text;
}

TEST_CASE("pieces of a file have its lines, their numbers and how many are rows, however many bytes they have") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "lines";
  std::mt19937_64 random{raytrain::testing::random_seed()};
  for (int repeat = 0; repeat < 300; ++repeat) {
    std::string text = "first\n";
    for (auto length = random() % 60; length > 0; --length) text += std::string_view{"ab\n\n\r\r\n"}[random() % 7];
    CAPTURE(text);
    write_text(path, text);
    std::vector<std::pair<std::string, std::uint64_t>> lines;
    for (detail::LineReader whole{path, 200, "option"}; auto const line = whole.next();) {
      lines.emplace_back(*line, whole.number());
    }
    for (std::size_t const bytes : {1, 2, 7, 31}) {
      detail::LineReader reader{path, 200, "option"};
      std::vector<std::pair<std::string, std::uint64_t>> of_pieces;
      of_pieces.emplace_back(*reader.next(), 1);
      auto const is_row = [](std::string_view line) { return !line.empty(); };
      while (auto const piece = reader.next_piece(bytes, is_row)) {
        CHECK((piece->text.size() >= bytes || text.ends_with(piece->text)));
        std::uint64_t rows = 0;
        detail::LinesOfPiece lines_of_piece{*piece};
        while (auto const line = lines_of_piece.next()) {
          of_pieces.emplace_back(*line, lines_of_piece.number());
          rows += is_row(*line) ? 1 : 0;
        }
        CHECK(piece->rows == rows);
      }
      CHECK(of_pieces == lines);
      CHECK(reader.number() == lines.size());
    }
  }
}

TEST_CASE("several threads read lines of JSON as one does, all at once and in blocks") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "rows.jsonl";
  std::mt19937_64 random{raytrain::testing::random_seed()};
  write_text(path, "\xEF\xBB\xBF" + json_text(50'000, random));
  JsonLinesOptions const typed{.types = {{"id", CsvType::int64}, {"city", CsvType::text}, {"pair", CsvType::float64}}};
  for (auto const& options : {JsonLinesOptions{}, typed, JsonLinesOptions{.columns = {"city", "pair"}}}) {
    CHECK(check_threads<detail::JsonTable>(path, options, random).empty());
  }
}

/// Checks that three threads add and skip the same rows as one, where blocks take turns.
template <class Table, class Options>
void check_turns(std::filesystem::path const& path, Options const& options, std::mt19937_64& random) {
  auto const size = random() % 2 == 0 ? 1 + random() % 300 : 5'000 + random() % 30'000;
  BlockTurns const turns{random() % 6, 1 + random() % 5};
  CAPTURE(size);
  CAPTURE(turns.first);
  CAPTURE(turns.stride);
  struct Read {
    Read(std::filesystem::path const& path, Options const& options,
         typename detail::RowsOfLines<Table>::Options const& how)
        : table{options}, file{path, how} {
      table.begin_file(path.string());
    }
    Table table;
    detail::RowsOfLines<Table> file;
  };
  auto const read_by = [&](int threads, detail::RowTurns const& kept, std::size_t bytes) {
    using How = typename detail::RowsOfLines<Table>::Options;
    auto const read = std::make_shared<Read>(path, options, How{200, threads, kept, bytes});
    return BlockReader{[=]() -> std::optional<Dataset> {
                         read->file.add_to(read->table, size);
                         if (read->table.rows() == 0) return std::nullopt;
                         return read->table.take();
                       },
                       [=] { return read->file.skip(read->table, size); }};
  };
  auto const whole = detail::bytes_of_piece;
  check_readers(
      read_by(1, {}, whole),
      {read_by(1, {size, turns}, whole), read_by(3, {size, turns}, 1'000 + random() % 1'000'000)},
      [&](std::uint64_t block) { return block == 0 || turns.takes(block); }, check_same_rows);
}

TEST_CASE("several threads add the rows of a large file of lines that take turns as one thread does") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "rows";
  std::mt19937_64 random{raytrain::testing::random_seed()};
  for (auto round = 0; round < 3; ++round) {
    write_text(path, json_text(50'000, random));
    check_turns<detail::JsonTable>(path, JsonLinesOptions{}, random);
    write_text(path, libsvm_text(60'000, "", random));
    check_turns<detail::LibsvmTable>(path, LibsvmOptions{.features = 13, .zero_based = true}, random);
  }
}

TEST_CASE("a name that comes late in a large file of JSON lines is a column from its begin on, with threads, too") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "rows.jsonl";
  std::mt19937_64 random{raytrain::testing::random_seed()};
  write_text(path, json_text(30'000, random) + "{\"id\": 1, \"late\": \"x\", \"later\": null}\n" +
                       json_text(20'000, random) + "{\"late\": \"y\", \"later\": 3}\n" + json_text(10, random));
  CHECK(check_threads<detail::JsonTable>(path, JsonLinesOptions{}, random).empty());
  CHECK(check_threads<detail::JsonTable>(
            path, JsonLinesOptions{.types = {{"late", CsvType::text}, {"later", CsvType::float32}}}, random)
            .empty());
  check_contains(check_threads<detail::JsonTable>(path, JsonLinesOptions{.types = {{"later", CsvType::int32}}}, random),
                 "column 'later': an integer is missing in the lines before");
}

TEST_CASE("several threads refuse a large file of JSON lines as one does, with the line of what is wrong first") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "rows.jsonl";
  std::mt19937_64 random{raytrain::testing::random_seed()};
  auto const good = json_text(40'000, random);
  auto const line = static_cast<std::size_t>(std::ranges::count(good, '\n')) + 1;
  JsonLinesOptions const options{.types = {{"id", CsvType::int32}}};
  for (auto const& [wrong, said] : std::map<std::string, std::string>{
           {"{\"id\": 1", "a comma or } is missing"},
           {"{\"id\": 1, \"id\": 2}", "the name 'id' comes twice"},
           {"{\"id\": 1, \"pair\": [1, 2, 3]}", "column 'pair': an array has 3 elements, and others have 2"},
           {"{\"id\": 1, \"ok\": 2}", "column 'ok': numbers, texts, or true and false are mixed"},
           {"{\"id\": 1, \"city\": 2}", "column 'city'"},
           {"{\"id\": 3000000000}", "column 'id': '3000000000' is not a number that it can hold"},
           {"{\"ok\": true}", "column 'id': an integer is missing"}}) {
    CAPTURE(wrong);
    write_text(path, good + wrong + '\n' + json_text(20'000, random) + "{\"id\": \"text\"}\n");
    auto const why = check_threads<detail::JsonTable>(path, options, random);
    check_contains(why, fmt::format("line {}", line));
    check_contains(why, said);
  }
}

TEST_CASE("several threads let missing values of JSON lines take as much memory as one does") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "rows.jsonl";
  std::mt19937_64 random{raytrain::testing::random_seed()};
  std::string array = "[0";
  for (auto i = 1; i < 500; ++i) array += ",0";
  std::string text = fmt::format("{{\"x\": {}]}}\n", array);
  for (auto i = 0; i < 450'000; ++i) text += "{\"x\":null}\n";
  write_text(path, text);
  check_contains(check_threads<detail::JsonTable>(path, JsonLinesOptions{}, random, false),
                 "values are missing up to here");
}

TEST_CASE("several threads read LIBSVM's format as one does, all at once and in blocks, and refuse it as one does") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "rows.svm";
  std::mt19937_64 random{raytrain::testing::random_seed()};
  LibsvmOptions const known{.features = 13, .zero_based = true, .absent = -1};
  for (std::string_view const query : {"", "qid:70 "}) {
    CAPTURE(query);
    auto const good = libsvm_text(60'000, query, random);
    auto const line = static_cast<std::size_t>(std::ranges::count(good, '\n')) + 1;
    write_text(path, good);
    CHECK(check_threads<detail::LibsvmTable>(path, known, random).empty());
    CHECK(check_threads<detail::LibsvmTable>(path, LibsvmOptions{}, random, false).empty());
    check_contains(check_threads<detail::LibsvmTable>(
                       path, LibsvmOptions{.features = 13, .zero_based = true, .max_bytes = 500'000}, random),
                   fmt::format("rows of 13 features take"));
    write_text(path, good + fmt::format("0 {}0:1\n", query) + libsvm_text(1'000, query, random));
    CHECK(
        check_threads<detail::LibsvmTable>(path, LibsvmOptions{}, random, false).empty());  // indices begin with 0 now
    for (auto const& [wrong, said] : std::map<std::string, std::string>{
             {query.empty() ? "0 qid:3 1:2" : "0 1:2", query.empty() ? "it has a qid" : "it has no qid"},
             {fmt::format("0 {}3:1 2:1", query), "the index 2 follows 3"},
             {fmt::format("0 {}3", query), "'3' is no index, colon and number"},
             {fmt::format("0 {}4000000000:1", query), ""}}) {
      CAPTURE(wrong);
      write_text(path, good + wrong + '\n' + libsvm_text(20'000, query, random) + "x\n");
      auto const why = check_threads<detail::LibsvmTable>(path, known, random);
      check_contains(why, fmt::format("line {}: ", line));
      check_contains(why, said);
    }
  }
}

}  // namespace
