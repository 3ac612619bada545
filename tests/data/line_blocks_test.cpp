// SPDX-License-Identifier: Apache-2.0
// Files of lines in blocks.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/data/libsvm.hpp>
#include <raytrain/data/materialize.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"

namespace {

using raytrain::csv_blocks;
using raytrain::Dataset;
using raytrain::DatasetBlocks;
using raytrain::json_lines_blocks;
using raytrain::libsvm_blocks;
using raytrain::read_json_lines;
using raytrain::read_libsvm;
using raytrain::testing::check_contains;
using raytrain::testing::random_seed;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

/// The rows of all blocks, of which each has `size`, but for a file's last one.
auto joined(DatasetBlocks blocks, std::size_t size, std::size_t files) -> Dataset {
  Dataset all;
  std::size_t smaller = 0;
  for (auto const& block : blocks) {
    CHECK(block.rows() <= size);
    if (block.rows() < size) ++smaller;
    all = all.union_with(block);
  }
  CHECK(smaller <= files);
  return all;
}

TEST_CASE("blocks of JSON lines have, in whatever sizes, the rows that read_json_lines has") {
  std::mt19937_64 random{random_seed()};
  TemporaryFolder const folder;
  for (auto file = 0; file < 3; ++file) {
    std::string text;
    for (std::size_t line = 0; line < 1'000; ++line) {
      text += fmt::format(R"({{"x": {}, "word": "{}", "pair": [{}, null])", random() % 100, random() % 7, line);
      if (line == 0 || random() % 2 == 0) text += R"(, "is_late": true)";
      text += "}\n";
    }
    write_text(folder.path() / fmt::format("part-{}.jsonl", file), text);
  }
  auto const whole = read_json_lines(folder.path());
  REQUIRE(whole.rows() == 3'000);
  for (auto const size : {std::size_t{1}, 1 + random() % 1'500, std::size_t{10'000}}) {
    CAPTURE(size);
    CHECK(joined(json_lines_blocks(folder.path(), {}, size), size, 3).digest() == whole.digest());
  }
  auto const rows = materialize(folder.path() / "rows", json_lines_blocks(folder.path() / "part-*", {}, 77));
  CHECK(rows.digest() == whole.digest());
}

TEST_CASE("the first block of JSON lines says which columns there are, and of what") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "a.jsonl";
  auto const refused = [&](std::string_view text, raytrain::JsonLinesOptions const& options = {}) {
    write_text(file, text);
    return thrown_error([&] {
      for (auto const& block : json_lines_blocks(file, options, 1)) (void)block;
    });
  };
  check_contains(refused("{\"x\": 1}\n{\"x\": 2, \"y\": 3}\n"),
                 "line 2: the name 'y' comes here first, behind the first block");
  check_contains(refused("{\"x\": null}\n{\"x\": [1, 2]}\n"), "a value has more arrays around it than others");
  check_contains(refused("{\"x\": null}\n{\"x\": \"a\"}\n"), "line 2: column 'x': 'a' is a text, and others are not");
  check_contains(refused("{\"x\": [1]}\n{\"x\": [1, 2]}\n"), "an array has 2 elements, and others have 1");
  check_contains(refused("{\"x\": 1}\n{\"x\": true}\n"), "numbers, texts, or true and false are mixed");
  check_contains(refused("{\"x\": 1}\n", {.columns = {"x", "z"}}), "JsonLinesOptions::columns names 'z'");
  check_contains(refused("{\"x\": 1}\n", {.types = {{"z", raytrain::CsvType::text}}}),
                 "JsonLinesOptions::types names 'z', and the lines have x");
  check_contains(refused("{\"x\": null}\n{\"x\": 3}\n", {.types = {{"x", raytrain::CsvType::int64}}}),
                 "line 1: column 'x': integers are missing in all lines up to here");
  check_contains(refused("{\"x\": 1}\n{\"z\": 3}\n", {.types = {{"z", raytrain::CsvType::int64}}}),
                 "line 1: column 'z': no line up to here has it");
  write_text(file, "{\"x\": null}\n{\"x\": \"a\"}\n");
  auto const texts = joined(json_lines_blocks(file, {.types = {{"x", raytrain::CsvType::text}}}, 1), 1, 1);
  CHECK(texts.column("x").text(1) == "a");
  write_text(folder.path() / "b.jsonl", "{\"y\": \"late\", \"x\": \"b\"}\n");
  raytrain::JsonLinesOptions const late{.columns = {"y", "x"},
                                        .types = {{"x", raytrain::CsvType::text}, {"y", raytrain::CsvType::text}}};
  auto const both = joined(json_lines_blocks(folder.path(), late, 1), 1, 2);
  CHECK(both.column_names() == std::vector<std::string>{"y", "x"});
  CHECK(both.digest() == read_json_lines(folder.path(), late).digest());
  std::filesystem::remove(folder.path() / "b.jsonl");
  write_text(file, "{\"x\": 1}\n{\"y\": 3, \"x\": 2}\n");
  CHECK(joined(json_lines_blocks(file, {.columns = {"x"}}, 1), 1, 1).column_names() == std::vector<std::string>{"x"});
}

TEST_CASE("blocks of LIBSVM's format have, in whatever sizes, the rows that read_libsvm has") {
  std::mt19937_64 random{random_seed()};
  TemporaryFolder const folder;
  for (auto const* const query : {"", "qid:7 "}) {
    CAPTURE(query);
    for (auto file = 0; file < 2; ++file) {
      std::string text;
      for (auto line = 0; line < 500; ++line) {
        text += fmt::format("{} {}{}:1 9:{}\n", random() % 2, query, random() % 5 + 1, random() % 100);
      }
      write_text(folder.path() / fmt::format("part-{}.svm", file), text);
    }
    raytrain::LibsvmOptions const options{.features = 12, .zero_based = false, .absent = -1};
    auto const whole = read_libsvm(folder.path(), options);
    REQUIRE(whole.rows() == 1'000);
    for (auto const size : {std::size_t{1}, 1 + random() % 600}) {
      CAPTURE(size);
      CHECK(joined(libsvm_blocks(folder.path(), options, size), size, 2).digest() == whole.digest());
    }
  }
}

TEST_CASE("blocks of LIBSVM's format need to be told the features, and have a qid in all lines or none") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "a.svm";
  write_text(file, "1 qid:3 1:2\n0 1:3\n");
  check_contains(thrown_error([&] { (void)libsvm_blocks(file, {.zero_based = true}); }),
                 "LibsvmOptions::features of libsvm_blocks: is not set");
  check_contains(thrown_error([&] { (void)libsvm_blocks(file, {.features = 3}); }),
                 "LibsvmOptions::zero_based of libsvm_blocks: is not set");
  auto blocks = libsvm_blocks(file, {.features = 3, .zero_based = true}, 1);
  CHECK(blocks.next()->column("qid").as<std::int64_t>()[0] == 3);
  check_contains(thrown_error([&] { (void)blocks.next(); }), "line 2: it has no qid, and a line before it has one");
}

TEST_CASE("a limit of missing values is a block's, and files without a row are refused as by the reading functions") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "a.jsonl";
  std::string text = "{\"x\": [0";
  for (auto i = 1; i < 1'000; ++i) text += ",0";
  text += "]}\n";
  for (auto i = 0; i < 80'000; ++i) text += "{\"x\":null}\n";
  write_text(file, text);
  std::size_t rows = 0;
  for (auto const& block : json_lines_blocks(file, {}, 1'000)) rows += block.rows();
  CHECK(rows == 80'001);
  check_contains(thrown_error([&] { (void)read_json_lines(file); }), "values are missing up to here");
  write_text(file, "\n");
  check_contains(thrown_error([&] { (void)json_lines_blocks(file).next(); }), "there are no rows");
  check_contains(thrown_error([&] { (void)libsvm_blocks(file, {.features = 3, .zero_based = true}).next(); }),
                 "there are no rows");
}

TEST_CASE("a file that is removed while blocks of it are read is not there, whatever was read ahead of it") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "a.csv";
  std::string lines = "x\n";
  for (auto i = 0; i < 1'000'000; ++i) lines += "1\n";
  write_text(file, lines);
  auto blocks = csv_blocks(file, {}, 10);
  CHECK(blocks.next()->rows() < 1'000'000);
  std::filesystem::remove(file);
  check_contains(thrown_error([&] { (void)blocks.next(); }),
                 "not_found: read '" + file.string() + "': there is no such file; its folder is empty; check the path");
}

TEST_CASE("ranges of other options have other sources, and a file that was changed is refused") {
  TemporaryFolder const folder;
  auto const file = folder.path() / "a.jsonl";
  write_text(file, "{\"x\": 1}\n");
  auto const source = json_lines_blocks(file).source();
  CHECK(json_lines_blocks(file).source() == source);
  CHECK(json_lines_blocks(file, {.columns = {"x"}}).source() != source);
  CHECK(json_lines_blocks(file, {.types = {{"x", raytrain::CsvType::float64}}}).source() != source);
  CHECK(json_lines_blocks(file, {}, 7).source() != source);
  CHECK(libsvm_blocks(file, {.features = 3, .zero_based = true}).source() !=
        libsvm_blocks(file, {.features = 3, .zero_based = false}).source());
  CHECK(libsvm_blocks(file, {.features = 3, .zero_based = true}).source() !=
        libsvm_blocks(file, {.features = 3, .zero_based = true, .absent = 1}).source());
  auto blocks = json_lines_blocks(file, {}, 1);
  (void)blocks.next();
  write_text(file, "{\"x\": 1}\n{\"x\"");
  for (auto const* const again : {"first", "second"}) {
    CAPTURE(again);
    check_contains(thrown_error([&] { (void)blocks.next(); }), "io: ");
  }
  CHECK(csv_blocks(file, {.columns = {"\xE8"}}).source() != csv_blocks(file, {.columns = {"\xE9"}}).source());
  check_contains(thrown_error([&] { (void)json_lines_blocks(file, {}, 0); }), "json_lines_blocks: blocks of 0 rows");
}

}  // namespace
