// SPDX-License-Identifier: Apache-2.0
// Files that parquet_files.py and the programs that it starts give each other.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <raytrain/core/element_type.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/materialize.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "column_values.hpp"
#include "same_rows.hpp"
#include "skipped_blocks.hpp"

namespace raytrain::testing {

/// A file that parquet_files.py has written, or is to read.
[[nodiscard]] inline auto of_python(std::string const& name) -> std::filesystem::path {
  auto const* const folder = std::getenv("RAYTRAIN_TEST_PARQUET");
  REQUIRE_MESSAGE(folder != nullptr, "start parquet_files.py, which starts this program");
  return std::filesystem::path{folder} / name;
}

[[nodiscard]] inline auto texts(Dataset const& data, std::string_view name) -> std::vector<std::string> {
  std::vector<std::string> all;
  for (std::size_t row = 0; row < data.rows(); ++row)
    all.emplace_back(data.column(name).text(row).value_or("(missing)"));
  return all;
}

/// With columns of all types that Arrow has, in rows of one and of several values.
[[nodiscard]] inline auto random_table(std::mt19937_64& random, std::size_t rows) -> Dataset {
  auto const numbers = [&]<class T>(T*, std::size_t each) {
    std::vector<T> all;
    for (std::size_t i = 0; i < rows * each; ++i) {
      if constexpr (std::is_arithmetic_v<T>) {
        all.push_back(static_cast<T>(random()));
      } else {
        all.push_back(T{static_cast<float>(random() % 1000) / 8});
      }
    }
    return all;
  };
  std::vector<std::optional<std::string>> words;
  for (std::size_t row = 0; row < rows; ++row) {
    words.push_back(random() % 5 == 0 ? std::nullopt : std::optional{fmt::format("ö{}\n\"", random() % 40)});
  }
  std::vector<Column> columns{Column::of_texts("words, \"quoted\"", words)};
  for (auto type = 0; type < 11; ++type) {
    with_element_type(static_cast<ElementType>(type), [&]<Element T>(T* of) {
      columns.emplace_back(fmt::format("one {}", to_string(element_type<T>)), numbers(of, 1));
      columns.emplace_back(fmt::format("many {}", to_string(element_type<T>)), numbers(of, 6), RowShape{2, 3});
    });
  }
  auto const booleans = [&](std::size_t each) {
    std::vector<bool> all;
    for (std::size_t i = 0; i < rows * each; ++i) all.push_back(random() % 2 == 0);
    return all;
  };
  columns.push_back(Column::of_booleans("one bool", booleans(1)));
  columns.push_back(Column::of_booleans("many bool", booleans(6), {2, 3}));
  return Dataset::from_columns(columns);
}

/// Checks that random tables are read as they were written, bit by bit, whole and in blocks, and writes
/// "of_raytrain" + `ending` for parquet_files.py. `write(rows, path)` takes a `Dataset` or `DatasetBlocks`;
/// `read(path)` gives the one, `blocks(path, rows)` the others.
void check_round_trips(std::string const& ending, auto const& write, auto const& read, auto const& blocks) {
  std::mt19937_64 random{random_seed()};
  TemporaryFolder const folder;
  for (auto round = 0; round < 4; ++round) {
    auto const table = random_table(random, 1 + random() % 3'000);
    auto const path = folder.path() / ("table" + ending);
    write(table, path);
    check_same_rows(read(path), table);
    auto const size = 1 + random() % 1'000;
    CAPTURE(size);
    Dataset all;
    for (auto const& block : blocks(path, size)) {
      CHECK(block.rows() <= size);
      all = all.union_with(block);
    }
    check_same_rows(all, table);
    write(blocks(path, size), folder.path() / ("blocks" + ending));
    check_same_rows(read(folder.path() / ("blocks" + ending)), table);
    check_same_rows(materialize(folder.path() / fmt::format("rows {}", round), blocks(path, size)), table);
  }
  write(random_table(random, 100), of_python("of_raytrain" + ending));
}

/// Checks that blocks of a file are the same where some are skipped, whatever parts the file has and of which types.
/// `write(blocks, path)` begins a part of the file for each; `blocks(path, rows)` reads it.
void check_skips(auto const& write, auto const& blocks) {
  std::mt19937_64 random{random_seed()};
  TemporaryFolder const folder;
  for (auto round = 0; round < 12; ++round) {
    auto const part_rows = std::size_t{1} << random() % 9;
    for (auto const* const name : {"a", "b"}) {
      auto parts = 1 + random() % 12;
      write(DatasetBlocks{"random tables",
                          [&]() -> std::optional<Dataset> {
                            if (parts-- == 0) return std::nullopt;
                            return random_table(random, 1 + random() % part_rows);
                          }},
            folder.path() / name);
    }
    auto const size = 1 + random() % 300;
    CAPTURE(part_rows);
    CAPTURE(size);
    check_skipped_blocks([&] { return blocks(folder.path() / "*", size); }, random);
  }
}

}  // namespace raytrain::testing
