// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/csv.hpp>

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/detail/csv_scanner.hpp>
#include <raytrain/data/detail/parse_number.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "column_values.hpp"
#include "csv_of.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::csv_of;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;

TEST_CASE("booleans are read in each spelling where that type is asked for, and nothing else is one") {
  CsvOptions const options{.types = {{"ok", CsvType::boolean}}};
  auto const data = csv_of("ok\ntrue\nTrue\nTRUE\n1\nfalse\n False \nFALSE\n0\n", options);
  CHECK(data.column("ok").describe() == "ok (bool, scalar)");
  auto const values = data.column("ok").as<std::uint8_t>();
  CHECK(std::vector(values.begin(), values.end()) == std::vector<std::uint8_t>{1, 1, 1, 1, 0, 0, 0, 0});
  for (auto const* const text : {"2", "yes", "tRUE", "1.0", "x"}) {
    CAPTURE(text);
    check_contains(thrown_error([&] { (void)csv_of(fmt::format("ok\n1\n{}\n", text), options); }),
                   fmt::format("line 3, column 'ok': '{}' is not a boolean that it can hold", text));
  }
  auto const lines = raytrain::parse_json_lines("{\"ok\":true}\n{\"ok\":false}", {.types = {{"ok", CsvType::boolean}}});
  CHECK(lines.column("ok").as<std::uint8_t>()[0] == 1);
  check_contains(thrown_error([&] {
                   (void)raytrain::parse_json_lines("{\"ok\":null}", {.types = {{"ok", CsvType::boolean}}});
                 }),
                 "column 'ok': booleans are missing");
}

TEST_CASE("a table of numbers becomes a column for each of its own, named by the header") {
  for (auto const* const text : {"a,b\n1,2.5\n-3,1e3\n", "a,b\r\n1,2.5\r\n-3,1e3\r\n", "a,b\n1,2.5\n-3,1e3",
                                 "\xEF\xBB\xBF"
                                 "a,b\n\n1,2.5\n\n-3,1e3\n\n",
                                 "\"a\",\"b\"\n\"1\",\"2.5\"\r\n\"-3\", +1e3 \n"}) {
    CAPTURE(text);
    auto const data = csv_of(text);
    CHECK(data.column_names() == std::vector<std::string>{"a", "b"});
    CHECK(values_of<float>(data, "a") == std::vector<float>{1, -3});
    CHECK(values_of<float>(data, "b") == std::vector<float>{2.5F, 1000});
  }
}

TEST_CASE("what has no header is named by numbers, or as it is said") {
  CHECK(csv_of("1;2\n3;4\n", {.delimiter = ';', .header = false}).column_names() == std::vector<std::string>{"0", "1"});
  auto const data =
      csv_of("two lines\nof words, and more\n1,2\n", {.skip_lines = 2, .header = false, .column_names = {"x", "y"}});
  CHECK(values_of<float>(data, "x") == std::vector<float>{1});
  CHECK(csv_of("p,q\n1,2\n", {.column_names = {"x", "y"}}).column_names() == std::vector<std::string>{"x", "y"});
}

TEST_CASE("columns are kept in the order that is asked for, in the types that are asked for") {
  auto const data =
      csv_of("id,name,value\n9007199254740993,Ada,0.1\n-2,\"Bo \"\"B\"\", Jr.\",0.2\n",
             {.columns = {"value", "id"}, .types = {{"id", CsvType::int64}, {"value", CsvType::float64}}});
  CHECK(data.column_names() == std::vector<std::string>{"value", "id"});
  CHECK(data.column("id").as<std::int64_t>()[0] == 9007199254740993);
  CHECK(data.column("value").as<double>()[1] == 0.2);
}

TEST_CASE("a float that is missing is a NaN") {
  auto const data = csv_of("a,b\n,1\nNA,1\nnan,1\n?,1\nnull,1\nN/A,1\nNaN,1\n");
  CHECK(data.rows() == 7);
  for (auto const value : data.column("a").as<float>()) CHECK(std::isnan(value));
}

TEST_CASE("a column is of text where its first field that is not missing is no number, or where the types say so") {
  auto const data = csv_of("city,age,zip,note\n?,41,0150,\n\"Aix, \"\"en\"\" P.\",42,1,NA\n12,43,0150,\n Oslo ,x,2, \n",
                           {.columns = {"zip", "city", "note"}, .types = {{"zip", CsvType::text}}});
  auto const& city = data.column("city");
  CHECK(city.is_text());
  CHECK(city.text(0) == std::nullopt);
  CHECK(city.text(1) == "Aix, \"en\" P.");
  CHECK(city.text(2) == "12");
  CHECK(city.text(3) == " Oslo ");
  CHECK(data.column("zip").text(0) == "0150");
  CHECK(data.column("zip").categories().size() == 3);
  CHECK(!data.column("note").is_text());
  for (auto const value : values_of<float>(data, "note")) CHECK(std::isnan(value));
  check_contains(thrown_error([] { (void)csv_of("a,b\n1,2\n1,two\n"); }),
                 "line 3, column 'b': 'two' is not a number that it can hold");
}

TEST_CASE("lines may end with a carriage return alone, skipped ones and the last one too") {
  auto const data =
      csv_of("of words, \"and\rmore\r\na,b\r1,\"2\"\r\r3,\"4\r\"\"\r\"\r", {.skip_lines = 2, .columns = {"a"}});
  CHECK(values_of<float>(data, "a") == std::vector<float>{1, 3});
  CHECK(values_of<float>(csv_of("a\r1\r2"), "a") == std::vector<float>{1, 2});
  check_contains(thrown_error([] { (void)csv_of("a\r1\r\r\nx\r"); }), "line 4, column 'a': 'x' is not a number");
}

TEST_CASE("a number too small for its column is 0, and one too large is refused") {
  auto const data = csv_of("a,b\n1e-50,1e-400\n-1e-300,-1e-400\n1e-40,1e-320\n", {.types = {{"b", CsvType::float64}}});
  CHECK(values_of<float>(data, "a") == std::vector<float>{0, 0, 1e-40F});
  CHECK(data.column("b").as<double>()[0] == 0);
  CHECK(data.column("b").as<double>()[2] == 1e-320);
  CHECK(std::signbit(values_of<float>(data, "a")[1]));
  for (auto const* const text : {"a\n1e50\n", "a\n-1e50\n", "a\n1\n1e-50x\n"}) {
    check_contains(thrown_error([&] { (void)csv_of(text); }), "is not a number that it can hold");
  }
}

TEST_CASE("tens of thousands of columns are each found by name, and two of one name among them") {
  constexpr auto count = 60'000;
  std::string names;
  std::string values;
  for (auto i = 0; i < count; ++i) {
    names += fmt::format("{}c{}", i == 0 ? "" : ",", i);
    values += fmt::format("{}{}", i == 0 ? "" : ",", i);
  }
  auto const data = csv_of(names + "\n" + values + "\n");
  CHECK(data.columns().size() == count);
  CHECK(values_of<float>(data, "c59999") == std::vector<float>{59'999});
  check_contains(thrown_error([&] { (void)csv_of(names + ",c7\n"); }), "two columns are named 'c7'");
}

TEST_CASE("options that can work with no file are refused before a file is looked at") {
  auto const refused = [](CsvOptions const& options) {
    auto const why = thrown_error([&] { (void)read_csv("there is none.csv", options); });
    CHECK(thrown_error([&] { (void)csv_blocks("there is none.csv", options); }) == why);
    return why;
  };
  CHECK(refused({.delimiter = '"'}) ==
        "invalid_config: CsvOptions::delimiter: is the quote, which begins and ends fields; write what is between the "
        "fields of a line, as ',', ';' or '\\t'");
  check_contains(refused({.delimiter = '\n'}), "CsvOptions::delimiter: is a line feed, which ends lines");
  check_contains(refused({.delimiter = '\r'}), "CsvOptions::delimiter: is a carriage return, which ends lines");
  check_contains(refused({.delimiter = '\0'}), "CsvOptions::delimiter: is NUL, which no text has");
  check_contains(refused({.column_names = {"a", "b", "a"}}), "CsvOptions::column_names: names 'a' twice");
  check_contains(refused({.columns = {"b", "b"}}), "CsvOptions::columns: names 'b' twice");
  check_contains(thrown_error([] {
                   (void)read_json_lines("there is none.jsonl", {.columns = {"b", "b"}});
                 }),
                 "JsonLinesOptions::columns: names 'b' twice");
}

TEST_CASE("what is no table is refused with line and column") {
  auto const refused = [](std::string_view text, CsvOptions const& options = {}) {
    return thrown_error([&] { (void)csv_of(text, options); });
  };
  check_contains(refused("a,b\n1,2\n\n3,x y\n"),
                 "line 4, column 'b': 'x y' is not a number that it can hold; write numbers");
  check_contains(refused("a,b\n1,2\n3\n"), "line 3 has 1 fields, and there are 2 columns");
  check_contains(refused("a,b\n1,2,3\n"), "line 2 has 3 fields, and there are 2 columns");
  check_contains(refused("a,a\n1,2\n"), "two columns are named 'a'");
  check_contains(refused("a,b\n"), "there are no rows");
  check_contains(refused(""), "there are no rows");
  check_contains(refused("a\n\"1\n2\n"), "line 2: a quoted field does not end");
  check_contains(refused("a\n\"1\"2\n"), "line 2: '2' follows the end of a quoted field");
  check_contains(refused("a,b\n1,2\n", {.columns = {"c"}}), "not_found: read CSV file");
  check_contains(refused("a,b\n1,2\n", {.columns = {"c"}}), "CsvOptions::columns names 'c', and the file has a, b");
  check_contains(refused("a,b\n1,2\n", {.types = {{"c", CsvType::int32}}}), "CsvOptions::types names 'c'");
  check_contains(refused("a,b\n1,2\n", {.column_names = {"x"}}),
                 "the header has 2 columns, and CsvOptions::column_names 1");
  check_contains(refused("a\n1.5\n", {.types = {{"a", CsvType::int32}}}), "line 2, column 'a': '1.5' is not a number");
  check_contains(refused("a\n3000000000\n", {.types = {{"a", CsvType::int32}}}), "'3000000000' is not a number");
  check_contains(refused("a\n\n", {.skip_lines = 5}), "there are no rows");
  for (auto const* const text : {"+", "+NA", "+?", "++1", "+-1", "-NA"}) {
    check_contains(refused(fmt::format("a\n1\n{}\n", text)), fmt::format("column 'a': '{}' is not a number", text));
    check_contains(refused(fmt::format("a\n{}\n", text), {.types = {{"a", CsvType::float32}}}),
                   fmt::format("column 'a': '{}' is not a number", text));
  }
}

TEST_CASE("a file is read the same compressed, and wherever its pieces end") {
  auto const seed = raytrain::testing::random_seed();
  std::mt19937 random{seed};
  std::string text = "number,\"quoted, name\"\n";
  std::vector<float> expected;
  while (text.size() < 700'000) {
    expected.push_back(static_cast<float>(random() % 1'000'000) / 8);
    text += fmt::format("{},\"{}\"\r\n", expected.back(), expected.back());
  }
  TemporaryFolder const folder;
  write_text(folder.path() / "plain.csv", text);
  auto* const compressed = gzopen((folder.path() / "table.csv.gz").c_str(), "wb");
  gzwrite(compressed, text.data(), static_cast<unsigned>(text.size()));
  gzclose(compressed);
  for (auto const* const name : {"plain.csv", "table.csv.gz"}) {
    auto const data = read_csv(folder.path() / name);
    CHECK(values_of<float>(data, "number") == expected);
    CHECK(values_of<float>(data, "quoted, name") == expected);
  }
}

TEST_CASE("fields of any characters come whole out of quotes, wherever the pieces of the text end") {
  std::mt19937 random{raytrain::testing::random_seed()};
  constexpr std::string_view characters{"ab,\"\r\n "};
  for (int tables = 0; tables < 2000; ++tables) {
    std::vector<std::vector<std::string>> lines(1 + random() % 4);
    std::string text;
    for (auto& line : lines) {
      line.resize(1 + random() % 4);
      for (auto& field : line) {
        for (auto size = random() % 6; size > 0; --size) field += characters[random() % characters.size()];
        auto const is_quoted =
            field.empty() || field.find_first_of(",\"\r\n") != std::string::npos || random() % 4 == 0;
        if (is_quoted) text += '"';
        for (auto const c : field) text += is_quoted && c == '"' ? std::string{"\"\""} : std::string{c};
        if (is_quoted) text += '"';
        text += ',';
      }
      text.pop_back();
      text += std::array{"\n", "\r", "\r\n"}[random() % 3];
    }
    std::vector<std::vector<std::string>> found(1);
    detail::CsvScanner scanner{','};
    auto const field = [&](std::string_view of_line) { found.back().emplace_back(of_line); };
    auto const line = [&] { found.emplace_back(); };
    for (std::string_view rest{text}; !rest.empty();) {
      auto const piece = rest.substr(0, 1 + random() % 8);
      scanner.feed(piece, field, line);
      rest.remove_prefix(piece.size());
    }
    scanner.finish(field, line);
    found.pop_back();
    REQUIRE(!scanner.problem());
    REQUIRE(found == lines);
  }
}

TEST_CASE("a whole number that float32 has not is refused where nobody has asked for float32") {
  check_contains(thrown_error([] { (void)csv_of("date\n20240131\n"); }), "line 2, column 'date': '20240131'");
  check_contains(thrown_error([] { (void)csv_of("date\n20240131.0\n"); }), "line 2, column 'date': '20240131.0'");
  check_contains(thrown_error([] { (void)csv_of("key\n89490200001234567890\n"); }), "'89490200001234567890'");
  CHECK(values_of<float>(csv_of("date\n16777216\n-16777218\n"), "date") == std::vector<float>{16777216, -16777218});
  CHECK(csv_of("date\n20240131\n", {.types = {{"date", CsvType::int64}}}).column("date").as<std::int64_t>()[0] ==
        20240131);
  CHECK(values_of<float>(csv_of("date\n20240131\n", {.types = {{"date", CsvType::float32}}}), "date")[0] == 20240132);
}

TEST_CASE("an integer or boolean that is missing is refused as missing, with the types that have missing values") {
  auto const refused = [](std::string const& text, CsvType type) {
    return thrown_error([&] { (void)csv_of(text, {.types = {{"key", type}}}); });
  };
  for (std::string const field : {"", " NA "}) {
    check_contains(refused("id,key\n1,9007199254740993\n2," + field + "\n", CsvType::int64),
                   "line 3, column 'key': an integer is missing ('" + field +
                       "'); fill it, leave the column out by CsvOptions::columns, or give it another of "
                       "CsvOptions::types: CsvType::float64, which is exact up to 2^53 and has NaN there, or text for "
                       "larger keys");
  }
  check_contains(refused("id,key\n1,?\n", CsvType::int32), "line 2, column 'key': an integer is missing ('?')");
  check_contains(refused("id,key\n1,True\n2,\n", CsvType::boolean),
                 "line 3, column 'key': a boolean is missing (''); fill it, leave the column out by "
                 "CsvOptions::columns, or read it as CsvType::text, where values may be missing");
}

TEST_CASE("a line of 20 MB is a row like others, whole and in blocks") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "long.csv";
  std::string const text(20'000'000, 'a');
  write_text(path, "t,n\nx,1\n" + text + ",2\ny,3\n");
  auto const data = read_csv(path);
  CHECK(data.rows() == 3);
  CHECK(data.column("t").text(1) == text);
  CHECK(values_of<float>(data, "n") == std::vector<float>{1, 2, 3});
  std::size_t rows = 0;
  for (auto const& block : csv_blocks(path, {}, 2)) {
    rows += block.rows();
    if (rows == 2) CHECK(block.column("t").text(1) == text);
  }
  CHECK(rows == 3);
}

TEST_CASE("NULL and n/a are missing numbers, also in the first row") {
  auto const data = csv_of("a,b\nNULL,n/a\n41,1\n");
  CHECK(std::isnan(values_of<float>(data, "a")[0]));
  CHECK(values_of<float>(data, "b")[1] == 1);
}

TEST_CASE("a header without a name is refused with its file at once, and can be left out or named") {
  check_contains(thrown_error([] { (void)csv_of(",a\n0,x,y\n"); }), "table.csv': a column has no name");
  CHECK(values_of<float>(csv_of(",a\n0,1\n", {.columns = {"a"}}), "a") == std::vector<float>{1});
  CHECK(csv_of(",a\n0,1\n", {.column_names = {"row", "a"}}).columns().size() == 2);
}

TEST_CASE("a number too small for any type is 0, and one too large for any is refused") {
  CHECK(values_of<float>(csv_of("a\n1\n1e-5000\n-1e-4940\n"), "a") == std::vector<float>{1, 0, 0});
  check_contains(thrown_error([] { (void)csv_of("a\n1\n1e5000\n"); }), "can hold");
}

TEST_CASE("the first rows of each file are read, as many as are asked for, alone and in blocks") {
  TemporaryFolder const folder;
  auto const table = [](std::size_t rows) {
    std::string text = "x,word\n";
    for (std::size_t row = 0; row < rows; ++row) text += fmt::format("{},w{}\n", row, row % 7);
    return text;
  };
  for (auto const* const name : {"a.csv", "b.csv"}) write_text(folder.path() / name, table(50'000));
  for (auto const rows : {1U, 7U, 20'000U, 49'999U, 60'000U}) {
    CAPTURE(rows);
    auto const of_a_file = std::min<std::size_t>(rows, 50'000);
    auto const data = read_csv(folder.path() / "a.csv", {.max_rows = rows});
    CHECK(data.digest() == csv_of(table(of_a_file)).digest());
    std::size_t of_blocks = 0;
    for (auto const& block : csv_blocks({folder.path() / "a.csv", folder.path() / "b.csv"}, {.max_rows = rows}, 100)) {
      of_blocks += block.rows();
    }
    CHECK(of_blocks == 2 * of_a_file);
  }
  CHECK(read_csv({folder.path() / "a.csv", folder.path() / "b.csv"}, {.max_rows = 3}).rows() == 6);
  auto const two = csv_of("x,word,gap\n1,b,\n2,a,\n3,c,text\nno number,d\n", {.max_rows = 2});
  CHECK(values_of<float>(two, "x") == std::vector<float>{1, 2});
  CHECK(two.column("word").categories().size() == 2);
  CHECK(!two.column("gap").is_text());
  CHECK(csv_of("x\n1\n2\n\"a\"b\n", {.max_rows = 2}).rows() == 2);
  check_contains(thrown_error([&] { (void)read_csv(folder.path() / "a.csv", {.max_rows = 0}); }),
                 "CsvOptions::max_rows: is 0; write at least 1");
  CHECK(csv_blocks(folder.path() / "a.csv", {.max_rows = 3}).source() != csv_blocks(folder.path() / "a.csv").source());
}

TEST_CASE("a file that is compressed in another way than by gzip and zstd is refused with what to do") {
  TemporaryFolder const folder;
  auto const refused = [&](std::string_view content) {
    auto const path = folder.path() / "table.csv";
    write_text(path, content);
    return thrown_error([&] { (void)read_csv(path); });
  };
  check_contains(refused("\xFD"
                         "7zXZ"),
                 "it is compressed by xz, and gzip and zstd are read; unpack it, as by xz -d");
  check_contains(refused("\x28\xB5\x2F"), "there are no rows");
}

TEST_CASE("a table in zstd, in several parts, is read as the text is, at once and in blocks") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "table.csv.zst";
  std::string text = "x,city\n";
  for (int i = 0; i < 100'000; ++i) text += fmt::format("{},city {}\n", i, i % 7);
  std::ofstream file{path, std::ios::binary};
  auto const half = text.size() / 2;
  std::string const skippable{"\x50\x2A\x4D\x18\x03\0\0\0abc", 11};  // as pzstd has before each part
  auto* const context = ::ZSTD_createCCtx();
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 28);  // as "zstd --long=28", which zstd alone refuses by default
  for (auto const& part : {text.substr(0, half), text.substr(half), std::string{}}) {
    std::string packed(::ZSTD_compressBound(part.size()), '\0');
    ZSTD_outBuffer out{packed.data(), packed.size(), 0};
    ZSTD_inBuffer in{part.data(), part.size(), 0};
    REQUIRE(::ZSTD_compressStream2(context, &out, &in, ZSTD_e_end) == 0);
    file << skippable << packed.substr(0, out.pos);
  }
  ::ZSTD_freeCCtx(context);
  file.close();
  auto const expected = csv_of(text);
  auto const data = read_csv(path);
  CHECK(std::ranges::equal(data.column("x").bytes(), expected.column("x").bytes()));
  CHECK(data.column("city").text(99'999) == expected.column("city").text(99'999));
  std::size_t rows = 0;
  for (auto const& block : csv_blocks(path, {}, 1'000)) rows += block.rows();
  CHECK(rows == 100'000);
}

TEST_CASE("a file of UTF-16 or UTF-32 is refused with what to do") {
  using namespace std::string_view_literals;
  for (auto const text : {"\xFF\xFEx\0\n\0"sv, "\xFE\xFF\0x\0\n"sv, "\0\0\xFE\xFF\0\0\0x"sv}) {
    check_contains(thrown_error([&] { (void)csv_of(text); }),
                   "table.csv': its first bytes say that it is UTF-16 or UTF-32, and UTF-8 is read; convert it, as by "
                   "iconv -f UTF-16 -t UTF-8, or -f UTF-32");
  }
}

TEST_CASE("a zero byte is a part of a text, and no number") {
  using namespace std::string_view_literals;
  CHECK(csv_of("x\na\0b\n"sv).column("x").text(0) == "a\0b"sv);
  check_contains(thrown_error([] { (void)csv_of("x\n1\n2\0\n"sv); }), "line 3, column 'x': '2");
}

}  // namespace

TEST_CASE("numbers of few digits are those that the standard library makes of them, bit by bit") {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  auto const check = [&]<class T>(T, std::string const& text) {
    T wanted{};
    T value{};
    auto const is_number = detail::parse_number(text, wanted) == std::errc{};
    CAPTURE(text);
    REQUIRE(detail::parse_float(text, value) == is_number);
    if (is_number) REQUIRE(std::memcmp(&value, &wanted, sizeof value) == 0);
  };
  for (std::string const text :
       {"0", "-0", ".", "-", "", "5.", ".5", "-.25", "1.2.3", "16777217", "0.0000001", "--1", "+7", "9.999999"}) {
    check(float{}, text);
    check(double{}, text);
  }
  for (int round = 0; round < 20'000; ++round) {
    auto text = std::to_string(random() >> (random() % 64));
    if (random() % 4 != 0) text.insert(random() % (text.size() + 1), ".");
    if (random() % 2 == 0) text.insert(0, "-");
    check(float{}, text);
    check(double{}, text);
  }
  // Close to half way between two floats, where 15 digits may round to the double that is half way.
  std::uniform_real_distribution<float> any{1, 10};
  for (int round = 0; round < 20'000; ++round) {
    auto const below = any(random);
    auto const above = std::nextafter(below, std::numeric_limits<float>::infinity());
    check(float{}, fmt::format("{:.15g}", (static_cast<double>(below) + static_cast<double>(above)) / 2));
  }
}
