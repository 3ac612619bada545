// SPDX-License-Identifier: Apache-2.0
// CPU time in which read_parquet and Arrow by hand read the same file of 10 columns of float32, which is written first:
//
//   parquet FILE ROWS TURNS
//
// By hand the chunks of each column are put together, too, as a column of raytrain is, and the checksums of pages are
// looked at, as read_parquet does, or not.
#include <arrow/api.h>
#include <parquet/arrow/reader.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/parquet.hpp>

#include "turns.hpp"

namespace {

auto make_table(std::size_t rows) -> raytrain::Dataset {
  std::vector<raytrain::Column> columns;
  for (std::size_t column = 0; column < 10; ++column) {
    std::vector<float> values(rows);
    for (std::size_t row = 0; row < rows; ++row) values[row] = static_cast<float>(random_at(10 * row + column));
    columns.emplace_back(fmt::format("x{}", column), std::move(values));
  }
  return raytrain::Dataset::from_columns(std::move(columns));
}

auto read_by_hand(std::string const& path, bool verifies) -> std::shared_ptr<arrow::Table> {
  parquet::arrow::FileReaderBuilder builder;
  auto properties = parquet::default_reader_properties();
  properties.set_page_checksum_verification(verifies);
  PARQUET_THROW_NOT_OK(builder.OpenFile(path, /*memory_map=*/false, properties));
  builder.properties(parquet::ArrowReaderProperties{/*use_threads=*/true});
  std::unique_ptr<parquet::arrow::FileReader> reader;
  PARQUET_THROW_NOT_OK(builder.Build(&reader));
  std::shared_ptr<arrow::Table> table;
  PARQUET_ASSIGN_OR_THROW(table, reader->ReadTable());
  PARQUET_ASSIGN_OR_THROW(table, table->CombineChunks());
  return table;
}

/// Whether both have the rows that were written.
void check(raytrain::Dataset const& wanted, raytrain::Dataset const& ours, arrow::Table const& by_hand) {
  for (auto const& column : wanted.columns()) {
    auto const chunk = by_hand.GetColumnByName(column.name())->chunk(0);
    auto const* const there = static_cast<arrow::FloatArray const&>(*chunk).raw_values();
    auto const here = ours.column(column.name()).bytes();
    auto const bytes = column.bytes();
    if (std::memcmp(bytes.data(), here.data(), bytes.size()) == 0 &&
        std::memcmp(bytes.data(), there, bytes.size()) == 0)
      continue;
    throw std::runtime_error{"column " + column.name() + " is not as it was written"};
  }
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 4) throw std::invalid_argument{"arguments: FILE ROWS TURNS"};
  std::string const path = argv[1];
  auto const wanted = make_table(std::stoul(argv[2]));
  raytrain::write_parquet(wanted, path);
  std::map<std::string, std::vector<double>> times;
  for (int turn = 0; turn < std::stoi(argv[3]); ++turn) {
    raytrain::Dataset ours;
    std::shared_ptr<arrow::Table> by_hand;
    times["raytrain"].push_back(time_ms(cpu_ms, [&] { ours = raytrain::read_parquet(path); }));
    times["unverified"].push_back(time_ms(cpu_ms, [&] { by_hand = read_by_hand(path, false); }));
    times["by_hand"].push_back(time_ms(cpu_ms, [&] { by_hand = read_by_hand(path, true); }));
    check(wanted, ours, *by_hand);
  }
  fmt::print("{{\"version\": \"{}\", \"raytrain_ms\": {}, \"by_hand_ms\": {}, \"unverified_ms\": {}}}\n",
             arrow::GetBuildInfo().version_string, median(times["raytrain"]), median(times["by_hand"]),
             median(times["unverified"]));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "parquet: %s\n", error.what());
  return 1;
}
