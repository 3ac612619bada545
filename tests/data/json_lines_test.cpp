// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/json_lines.hpp>

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "column_values.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::floats;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;
namespace fs = std::filesystem;

auto json_lines_of(std::string_view text, JsonLinesOptions const& options = {}) -> Dataset {
  TemporaryFolder const folder;
  return read_json_lines(write_text(folder.path() / "x.jsonl", text), options);
}

/// What df.to_json(orient="records", lines=True) of pandas 3.1 writes of
///   pd.DataFrame({"age": [41, None, 7], "city": ["Oslo", None, 'Aix "en" P.\nö/😀'], "ok": [True, False, True],
///                 "x": [[1.5, 2], [3, 4], [5, -6e-7]]})
constexpr std::string_view of_pandas =
    R"({"age":41.0,"city":"Oslo","ok":true,"x":[1.5,2]}
{"age":null,"city":null,"ok":false,"x":[3,4]}
{"age":7.0,"city":"Aix \"en\" P.\n\u00f6\/\ud83d\ude00","ok":true,"x":[5,-0.0000006]}
)";

}  // namespace

TEST_CASE("lines that pandas has written have its numbers, texts, truths and arrays") {
  auto const data = json_lines_of(of_pandas);
  CHECK(data.column_names() == std::vector<std::string>{"age", "city", "ok", "x"});
  CHECK(floats(data, "age") == std::vector<float>{41, -1, 7});
  CHECK(data.column("city").text(1) == std::nullopt);
  CHECK(data.column("city").text(2) == "Aix \"en\" P.\n\xC3\xB6/\xF0\x9F\x98\x80");
  CHECK(floats(data, "ok") == std::vector<float>{1, 0, 1});
  CHECK(data.column("x").row_shape() == RowShape{2});
  CHECK(floats(data, "x") == std::vector<float>{1.5F, 2, 3, 4, 5, -6e-7F});
}

TEST_CASE("text in memory is read as the lines of a file, and errors call it as they are told") {
  std::map<std::string, CsvType, std::less<>> const types{{"age", CsvType::float32}, {"city", CsvType::text}};
  for (std::string_view const text : {"{\"age\":null,\"city\":\"Oslo\"}\n\n{\"age\":7,\"city\":null}\n",
                                      "{\"age\":null,\"city\":\"Oslo\"}\r\n{\"age\":7}"}) {
    auto const data = parse_json_lines(text, {.types = types});
    CHECK(floats(data, "age") == std::vector<float>{-1, 7});
    CHECK(data.column("city").text(0) == "Oslo");
    CHECK(data.column("city").text(1) == std::nullopt);
  }
  CHECK(parse_json_lines("\xEF\xBB\xBF{\"age\":1}\n").column("age").as<float>()[0] == 1);
  check_contains(thrown_error([&] { return parse_json_lines("{\"age\":1}\n{\"age\":]", {}, "the request"); }),
                 "reading the request, line 2");
  check_contains(thrown_error([&] { return parse_json_lines("{\"age\":1}", {.types = types}); }),
                 "reading JSON lines, line 1: JsonLinesOptions::types names 'city', and the lines have age");
  for (auto const* const text : {"", "\n", " \r\n"}) {
    check_contains(thrown_error([&] { return parse_json_lines(text); }), "there are no rows; look at what it holds");
  }
}

TEST_CASE("names may come in any order and late, and what a line has not is missing, arrays and texts, too") {
  auto const data = json_lines_of(
      "\xEF\xBB\xBF{\"a\":1}\r\n\n {} \n{ \"t\" : \"x\", \"v\":[[1,2],[3,null]], \"a\":2}\n"
      "{\"v\":null,\"n\":null}");
  CHECK(data.rows() == 4);
  CHECK(data.column_names() == std::vector<std::string>{"a", "t", "v", "n"});
  CHECK(floats(data, "a") == std::vector<float>{1, -1, 2, -1});
  CHECK(data.column("t").text(0) == std::nullopt);
  CHECK(data.column("t").text(2) == "x");
  CHECK(data.column("v").row_shape() == RowShape{2, 2});
  CHECK(floats(data, "v") == std::vector<float>{-1, -1, -1, -1, -1, -1, -1, -1, 1, 2, 3, -1, -1, -1, -1, -1});
  CHECK(floats(data, "n") == std::vector<float>{-1, -1, -1, -1});
}

TEST_CASE("columns are kept in the order and in the types that are asked for") {
  auto const data = json_lines_of(
      "{\"id\":9007199254740993,\"o\":{\"deep\":[{}]},\"zip\":150,\"d\":0.1,\"i\":[1,2]}\n"
      "{\"id\":-2,\"zip\":true,\"d\":\"-Infinity\",\"i\":[3,4]}\n{\"id\":1,\"zip\":\"x\",\"i\":[5,6]}\n",
      {.columns = {"zip", "id", "d", "i"},
       .types = {{"id", CsvType::int64}, {"zip", CsvType::text}, {"d", CsvType::float64}, {"i", CsvType::int32}}});
  CHECK(data.column_names() == std::vector<std::string>{"zip", "id", "d", "i"});
  CHECK(data.column("id").as<std::int64_t>()[0] == 9007199254740993);
  CHECK(data.column("zip").text(0) == "150");
  CHECK(data.column("zip").text(1) == "true");
  CHECK(data.column("zip").text(2) == "x");
  CHECK(data.column("d").as<double>()[0] == 0.1);
  CHECK(data.column("d").as<double>()[1] == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(data.column("d").as<double>()[2]));
  CHECK(data.column("i").describe() == "i (int32, 2)");
}

TEST_CASE("the lines of several files are as those of one, though each has other names") {
  TemporaryFolder const folder;
  write_text(folder.path() / "a.jsonl", "{\"a\":1}\n");
  write_text(folder.path() / "b.jsonl", "");
  write_text(folder.path() / "c.jsonl", "{\"a\":null,\"b\":\"x\"}\n{\"b\":null}\n");
  auto const data = read_json_lines(folder.path() / "*.jsonl");
  CHECK(floats(data, "a") == std::vector<float>{1, -1, -1});
  CHECK(data.column("b").text(1) == "x");
  write_text(folder.path() / "d.jsonl", "\n{\"b\":1}\n");
  check_contains(
      thrown_error([&] { return read_json_lines(folder.path() / "*.jsonl"); }),
      "reading JSON file '" + (folder.path() / "d.jsonl").string() + "', line 2: column 'b': numbers, texts");
  auto const gone = folder.path() / "gone.jsonl";
  check_contains(thrown_error([&] {
                   return read_json_lines({folder.path() / "a.jsonl", gone});
                 }),
                 "not_found: read '" + gone.string() + "'");
}

TEST_CASE("what does not belong into one column is refused with file, line and column") {
  auto const refused = [](std::string_view lines, std::string const& problem, JsonLinesOptions const& options = {}) {
    TemporaryFolder const folder;
    auto const path = write_text(folder.path() / "x.jsonl", lines);
    check_contains(thrown_error([&] { return read_json_lines(path, options); }),
                   "invalid_data: reading JSON file '" + path.string() + "', line 2: " + problem);
  };
  refused("{\"a\":1}\n{\"a\":\"x\"}", "column 'a': 'x' is a text, and others are not; make its values alike and flat");
  refused("{\"a\":\"x\"}\n{\"a\":1}", "column 'a': numbers, texts, or true and false are mixed");
  refused("{\"a\":true}\n{\"a\":1}", "column 'a': numbers, texts, or true and false are mixed");
  refused("{\"a\":1}\n{\"a\":false}", "column 'a': numbers, texts, or true and false are mixed");
  refused("{}\n{\"a\":{\"b\":1}}", "column 'a': an object is within the line's object");
  refused("{}\n{\"a\":[{\"b\":1}]}", "column 'a': an object is within the line's object");
  refused("{\"a\":[1,2]}\n{\"a\":[1,2,3]}", "column 'a': an array has 3 elements, and others have 2");
  refused("{}\n{\"a\":[[1,2],[3]]}", "column 'a': an array has 1 elements, and others have 2");
  refused("{\"a\":[1,2]}\n{\"a\":1}", "column 'a': a value has more or fewer arrays around it");
  refused("{\"a\":1}\n{\"a\":[1]}", "column 'a': a value has more arrays around it");
  refused("{}\n{\"a\":[1,[2]]}", "column 'a': a value has more arrays around it");
  refused("{}\n{\"a\":[[1],2]}", "column 'a': a value has more or fewer arrays around it");
  refused("{}\n{\"a\":[]}", "column 'a': an array is empty");
  refused("{}\n{\"a\":[[]]}", "column 'a': an array is empty");
  refused("{}\n{\"a\":[\"x\"]}", "column 'a': 'x' is a text in an array");
  refused("{\"a\":1}\n{\"a\":1e39}", "column 'a': '1e39' is not a number that it can hold");
  refused("{\"a\":1}\n{\"a\":16777217}", "column 'a': '16777217' is not a number that it can hold");
  refused("{\"a\":1}\n{\"a\":1.5}", "column 'a': '1.5' is not a number that it can hold",
          {.types = {{"a", CsvType::int32}}});
  refused("{\"a\":1}\n{}", "column 'a': an integer is missing", {.types = {{"a", CsvType::int64}}});
  refused("{}\n{\"a\":1}", "column 'a': an integer is missing in the lines before", {.types = {{"a", CsvType::int64}}});
  refused("{}\n{\"a\":[1]}", "column 'a': an integer is missing in the lines before",
          {.types = {{"a", CsvType::int64}}});
  refused("{}\n{\"a\":1,\"b\":2,\"a\":3}", "is not JSON: the name 'a' comes twice");
}

TEST_CASE("what is no object of JSON is refused with file, line and byte") {
  auto const refused = [](std::string_view line, std::string const& problem) {
    TemporaryFolder const folder;
    auto const path = write_text(folder.path() / "x.jsonl", "{}\n" + std::string{line} + "\n{}\n");
    check_contains(thrown_error([&] { return read_json_lines(path); }),
                   "invalid_data: reading JSON file '" + path.string() + "', line 2: is not JSON: " + problem);
  };
  refused("[1]", "an object is missing (at byte 0)");
  refused("{\"a\":1} {}", "something follows its end (at byte 8)");
  refused("{\"a\":1", "a comma or } is missing");
  refused("{\"a\" 1}", "a colon is missing");
  refused("{\"a\":}", "a value is missing");
  refused("{\"a\":NaN}", "a value is missing");
  refused("{\"a\":01}", "a comma or } is missing");
  refused("{\"a\":1,}", "a name in quotes is missing");
  refused("{'a':1}", "a name in quotes is missing");
  refused("{\"a\":\"x}", "a closing quote is missing");
  refused({"{\"a\":\"\0\"}", 9}, "a control character is not escaped");
  refused({"{\"a\":\0}", 7}, "a value is missing");
  refused("{\"a\":\"\xff\"}", "a byte is not UTF-8");
  refused("{\"a\":\"\\ud800\"}", "half a surrogate pair is missing");
  refused("{\"a\":" + std::string(80, '['), "it is nested too deeply");
  for (auto const* const text : {"", "\n \n"}) {
    check_contains(thrown_error([&] { return json_lines_of(text); }), "there are no rows; look at what it holds");
  }
  check_contains(thrown_error([] { return json_lines_of("{}\n"); }), "there are no columns");
  check_contains(thrown_error([] { return json_lines_of("{\"a\":1}", {.columns = {"b"}}); }),
                 "JsonLinesOptions::columns names 'b', and the lines have");
  check_contains(thrown_error([] {
                   return json_lines_of("{\"a\":1}", {.types = {{"b", CsvType::text}}});
                 }),
                 "JsonLinesOptions::types names 'b', and the lines have a; name one of them");
}

TEST_CASE("the type of a column that is left out is refused, as the name may be misspelt") {
  TemporaryFolder const folder;
  auto const path = write_text(folder.path() / "x.jsonl", "{\"age\":1,\"agge\":2}\n");
  JsonLinesOptions const options{.columns = {"age"}, .types = {{"agge", CsvType::int64}}};
  std::string const refused =
      "invalid_config: JsonLinesOptions::types: names 'agge', which JsonLinesOptions::columns leaves out; name it "
      "there, too, or leave out its type";
  CHECK(thrown_error([&] { return parse_json_lines("{\"age\":1}\n", options); }) == refused);
  CHECK(thrown_error([&] { return read_json_lines(path, options); }) == refused);
  CHECK(thrown_error([&] { return json_lines_blocks(path, options); }) == refused);
}

TEST_CASE("a name that no line has is told as such, whatever type it is to have") {
  for (auto const type : {CsvType::int32, CsvType::int64, CsvType::boolean, CsvType::float64, CsvType::text}) {
    JsonLinesOptions const options{.types = {{"agge", type}}};
    check_contains(
        thrown_error([&] { return parse_json_lines("{\"age\":1}\n", options); }),
        "not_found: reading JSON lines, line 1: JsonLinesOptions::types names 'agge', and the lines have age");
    check_contains(thrown_error([&] { return json_lines_of("{\"age\":1}\n", options); }),
                   "line 1: JsonLinesOptions::types names 'agge', and the lines have age");
  }
  check_contains(thrown_error([] {
                   return parse_json_lines("{\"age\":null}", {.types = {{"age", CsvType::int64}}});
                 }),
                 "column 'age': integers are missing in all lines up to here");
}

TEST_CASE("a line of many megabytes is read, and names that are new in each line do not take all memory") {
  constexpr auto count = 2'000'000;
  std::string line = "{\"a\":[0";
  for (auto i = 1; i < count; ++i) line += i % 2 == 0 ? ",0" : ",1";
  CHECK(json_lines_of(line + "]}\n").column("a").row_values() == count);
  std::string lines;
  for (auto i = 0; i < 20'000; ++i) lines += fmt::format("{{\"{}\":1}}\n", i);
  check_contains(thrown_error([&] { return json_lines_of(lines); }),
                 "values are missing up to here, more than 16 for each byte; keep fewer columns");
}

TEST_CASE("each of very many named columns is found, in the order that is asked for") {
  std::string line;
  std::vector<std::string> names;
  for (auto i = 0; i < 20'000; ++i) {
    names.push_back(fmt::format("gene {}", i));
    line += fmt::format("{}\"{}\":{}", i == 0 ? "{" : ",", names.back(), i);
  }
  line += "}\n";
  std::ranges::reverse(names);
  auto const data = parse_json_lines(line, {.columns = names});
  CHECK(data.column_names() == names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(data.columns()[i].as<float>()[0] == 19'999 - static_cast<float>(i));
  }
}

TEST_CASE("rows that are missing of a long array do not take all memory, before it and behind it") {
  std::string zeros = "[0";
  for (auto i = 1; i < 100'000; ++i) zeros += ",0";
  zeros += "]";
  std::string nulls;
  std::string others;
  for (auto i = 0; i < 10'000; ++i) {
    nulls += "{\"a\":null}\n";
    others += "{\"b\":1}\n";
  }
  auto const refused = [](std::string const& text) { return thrown_error([&] { return json_lines_of(text); }); };
  check_contains(refused("{\"a\":" + zeros + "}\n" + nulls), "values are missing up to here");
  check_contains(refused(others + "{\"a\":" + zeros + "}\n"), "values are missing up to here");
}

TEST_CASE("an empty name is refused with its line, and a column that is asked for twice") {
  check_contains(thrown_error([] { return json_lines_of("{\"a\":1}\n{\"\":1}\n"); }), "line 2");
  check_contains(thrown_error([] { return json_lines_of("{\"a\":1}", {.columns = {"a", "a"}}); }), "names 'a' twice");
}

TEST_CASE("a table is an object on a line for each row, with null for what is missing") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.jsonl";
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  write_json_lines(Dataset::from_columns(
                       {{"a\"", std::vector<float>{0.1F, 1e20F}},
                        {"d", std::vector<double>{-infinity, 1.0 / 3}},
                        {"h", std::vector<Float16>{Float16{0.5F}, Float16{std::numeric_limits<float>::quiet_NaN()}}},
                        {"u", std::vector<std::uint64_t>{18446744073709551615U, 0}},
                        {"m", std::vector<std::int8_t>{1, 2, 3, -4, 5, 6, 7, 8}, {2, 2}},
                        Column::of_texts("t", {"x\n\xC3\xB6", std::nullopt})}),
                   path);
  CHECK(read_text(path) ==
        "{\"a\\\"\":0.1,\"d\":\"-Infinity\",\"h\":0.5,\"u\":18446744073709551615,\"m\":[[1,2],[3,-4]],\"t\":"
        "\"x\\n\xC3\xB6\"}\n"
        "{\"a\\\"\":1e+20,\"d\":0.3333333333333333,\"h\":null,\"u\":0,\"m\":[[5,6],[7,8]],\"t\":null}\n");
  auto const refused = [&](Dataset const& data, fs::path const& where) {
    return thrown_error([&] {
      write_json_lines(data, where);
      return 0;
    });
  };
  auto const before = read_text(path);
  check_contains(refused(Dataset::of_rows(1), path),
                 "invalid_data: write JSON file '" + path.string() + "': the dataset has no column; add one");
  check_contains(refused(Dataset::from_columns({Column::of_texts("t", {"\xff"})}), path), "is not UTF-8; replace");
  check_contains(refused(Dataset::from_columns({{"\xff", std::vector<float>(1)}}), path), "is not UTF-8; replace");
  check_contains(refused(Dataset::from_columns({{"x", std::vector<float>(1)}}), folder.path() / "no" / "x"),
                 "No such file or directory");
  CHECK(read_text(path) == before);
}

TEST_CASE("random tables are read as lines as they were written, bit by bit, compressed, too") {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.jsonl";
  for (auto round = 0; round < 60; ++round) {
    auto const rows = 1 + random() % (round == 0 ? 5'000 : 100);
    std::vector<Column> columns;
    JsonLinesOptions options;
    for (auto count = 1 + random() % 4; columns.size() < count;) {
      auto const type = static_cast<CsvType>(random() % 6);
      auto const name = fmt::format("{}\"\\ \xC3\xB6", columns.size());
      RowShape shape(random() % 3);
      auto values = rows;
      for (auto& extent : shape) values *= extent = 1 + random() % 3;
      auto const add = [&]<class T>(T /*zero*/, auto const& make) {
        std::vector<T> all(values);
        std::ranges::generate(all, make);
        columns.push_back({name, std::move(all), shape});
      };
      auto const bits = [&] { return random(); };
      std::vector<std::optional<std::string>> texts(rows);
      switch (type) {
        // NaNs are those that the reader makes, since their bits are not written.
        case CsvType::float32:
          add(0.0F, [&] {
            auto const value = std::bit_cast<float>(static_cast<std::uint32_t>(bits()));
            return std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
          });
          break;
        case CsvType::float64:
          add(0.0, [&] {
            auto const value = std::bit_cast<double>(bits());
            return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
          });
          break;
        case CsvType::int32: add(std::int32_t{}, [&] { return static_cast<std::int32_t>(bits()); }); break;
        case CsvType::boolean: add(std::uint8_t{}, [&] { return static_cast<std::uint8_t>(bits() % 2); }); break;
        case CsvType::int64: add(std::int64_t{}, [&] { return static_cast<std::int64_t>(bits()); }); break;
        case CsvType::text:
          for (auto& text : texts) {
            if (random() % 4 != 0) text = fmt::format("{}\n{}\"\t", random() % 7, static_cast<char>(random() % 128));
          }
          columns.push_back(Column::of_texts(name, texts));
          break;
      }
      options.types.emplace(name, type);
    }
    auto const data = Dataset::from_columns(std::move(columns));
    write_json_lines(data, path);
    REQUIRE(read_json_lines(path, options).digest() == data.digest());
    auto const content = read_text(path);
    auto const compressed = folder.path() / "x.jsonl.gz";
    auto* const file = ::gzopen(compressed.c_str(), "wb");
    REQUIRE(::gzwrite(file, content.data(), static_cast<unsigned>(content.size())) == static_cast<int>(content.size()));
    REQUIRE(::gzclose(file) == Z_OK);
    REQUIRE(read_json_lines(compressed, options).digest() == data.digest());
  }
}

TEST_CASE("blocks become one file of lines, whose columns are the first one's, and other blocks none") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "x.jsonl";
  auto const blocks = [](std::vector<Dataset> parts) {
    return DatasetBlocks{"parts",
                         [parts = std::move(parts), next = std::size_t{0}]() mutable -> std::optional<Dataset> {
                           return next == parts.size() ? std::nullopt : std::optional{parts[next++]};
                         }};
  };
  auto const one = Dataset::from_columns({{"x", std::vector{1.5F, 2.0F}, {2}}, Column::of_texts("t", {std::nullopt})});
  auto const other = Dataset::from_columns({Column::of_texts("t", {"b"}), {"x", std::vector{3.0F, 4.0F}, {2}}});
  write_json_lines(blocks({one, one.head(0), other}), path);
  auto const written = "{\"x\":[1.5,2],\"t\":null}\n{\"x\":[3,4],\"t\":\"b\"}\n";
  CHECK(read_text(path) == written);
  write_json_lines(json_lines_blocks(path, {.types = {{"t", CsvType::text}}}, 1), folder.path() / "again.jsonl");
  CHECK(read_text(folder.path() / "again.jsonl") == written);
  auto const refused = [&](DatasetBlocks some, std::string_view problem) {
    check_contains(thrown_error([&] { write_json_lines(std::move(some), path); }), problem);
    CHECK(read_text(path) == written);
  };
  refused(blocks({one, other.rename_columns({{"t", "s"}})}),
          "write JSON file '" + path.string() +
              "': a block has other columns than the first one: 't' is missing, 's' is new; give all blocks the same "
              "names, types and row shapes");
  refused(blocks({}), "there is no block; look at their source");
  refused(blocks({Dataset{}}), "the dataset has no column");
  auto taken = blocks({one, other});
  (void)taken.next();
  refused(taken, "invalid_call: write JSON file");
}
