// SPDX-License-Identifier: Apache-2.0
// What must hold for any bytes at all that are read as a file of Arrow's tables, its own or a Parquet file.
#pragma once

#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/data/arrow.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/arrow_array.hpp>
#include <raytrain/data/parquet.hpp>

#include "data_properties.hpp"
#include "properties.hpp"

namespace raytrain::testing {

/// True if `read(path, options)` reads the bytes. What it gives is written by `write(dataset, path)` and read again,
/// and each column is read alone, as numbers of another type; `blocks(path, options, rows)` has as many rows, if it
/// does not refuse them, as a whole and shared by workers.
template <class Options, class Read, class Blocks, class Write>
auto check_tables(BytesView content, Read const& read, Blocks const& blocks, Write const& write) -> bool {
  auto const& file = scratch_file();
  auto const path = file.holding(content);
  auto const data = unless_refused(Errc::invalid_data, [&] { return read(path, Options{}); });
  (void)unless_refused(Errc::invalid_data, [&] {
    std::size_t rows = 0;
    for (auto const& block : blocks(path, Options{}, 3)) rows += block.rows();
    require(!data || rows == data->rows(), "blocks have as many rows as there are");
    return rows;
  });
  if (!data) return false;
  check_shards([&] { return blocks(path, Options{}, 3); }, data->rows());

  constexpr auto types = static_cast<std::size_t>(ElementType::bfloat16) + 1;
  for (std::size_t i = 0; i < data->columns().size(); ++i) {
    auto const& name = data->columns()[i].name();
    auto const type = static_cast<ElementType>((i + content.size()) % types);
    (void)unless_refused(Errc::invalid_data, [&] { return read(path, Options{{name}, {{name, type}}}); });
  }

  // Texts may be no UTF-8, as those of binary columns.
  auto const is_written = unless_refused(Errc::invalid_data, [&] {
    write(*data, path);
    return true;
  });
  if (is_written) require_same_table(*data, read(path, Options{}));
  return true;
}

/// True if the bytes are a file of Arrow's, or a stream.
inline auto check_arrow_file(BytesView content) -> bool {
  return check_tables<ArrowOptions>(
      content, [](auto const& path, auto const& options) { return read_arrow(path, options); },
      [](auto const& path, auto const& options, std::size_t rows) { return arrow_blocks(path, options, rows); },
      [](Dataset const& data, auto const& path) { write_arrow(data, path); });
}

/// True if the bytes are a Parquet file.
inline auto check_parquet_file(BytesView content) -> bool {
  return check_tables<ParquetOptions>(
      content, [](auto const& path, auto const& options) { return read_parquet(path, options); },
      [](auto const& path, auto const& options, std::size_t rows) { return parquet_blocks(path, options, rows); },
      [](Dataset const& data, auto const& path) { write_parquet(data, path); });
}

/// Small tables of several types.
[[nodiscard]] inline auto small_tables() -> std::vector<Dataset> {
  std::vector<Column> mixed;
  mixed.emplace_back("x", std::vector<float>{1.5F, -2, 0});
  mixed.emplace_back("n", std::vector<std::int64_t>{1, -7, 20'240'131});
  mixed.push_back(Column::of_texts("t", {"a", std::nullopt, "\xC3\xB6"}));
  std::vector<Column> lists;
  lists.emplace_back("m", std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}, RowShape{2, 2});
  lists.emplace_back("b", std::vector<std::uint8_t>{0, 255});
  std::vector<Column> one;
  one.emplace_back("h", std::vector<std::int16_t>{5, 6, 7, 8, 9});
  return {Dataset::from_columns(std::move(mixed)), Dataset::from_columns(std::move(lists)),
          Dataset::from_columns(std::move(one))};
}

[[nodiscard]] inline auto bytes_of_file(std::filesystem::path const& path) -> Bytes {
  std::ifstream file{path, std::ios::binary};
  file.exceptions(std::ios::badbit);
  std::string const text{std::istreambuf_iterator<char>{file}, {}};
  auto const bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

/// The table as a stream, and in the file format, compressed in both.
[[nodiscard]] inline auto compressed_arrow_files(Dataset const& data) -> std::vector<Bytes> {
  std::vector<Bytes> files;
  auto const table = detail::arrow_table_of(data, "write a seed");
  for (auto const compression : {arrow::Compression::LZ4_FRAME, arrow::Compression::ZSTD}) {
    auto options = arrow::ipc::IpcWriteOptions::Defaults();
    options.codec = detail::value_of(arrow::util::Codec::Create(compression), "write a seed");
    auto const out = detail::value_of(arrow::io::BufferOutputStream::Create(), "write a seed");
    auto const is_stream = compression == arrow::Compression::ZSTD;
    auto const writer = detail::value_of(is_stream ? arrow::ipc::MakeStreamWriter(out, table->schema(), options)
                                                   : arrow::ipc::MakeFileWriter(out, table->schema(), options),
                                         "write a seed");
    detail::check_arrow(writer->WriteTable(*table, 2), "write a seed");
    detail::check_arrow(writer->Close(), "write a seed");
    auto const written = detail::value_of(out->Finish(), "write a seed");
    auto const bytes = std::as_bytes(std::span{written->data(), static_cast<std::size_t>(written->size())});
    files.emplace_back(bytes.begin(), bytes.end());
  }
  return files;
}

[[nodiscard]] inline auto arrow_seeds() -> std::vector<Bytes> {
  std::vector<Bytes> seeds;
  for (auto const& table : small_tables()) {
    write_arrow(table, scratch_file().path());
    seeds.push_back(bytes_of_file(scratch_file().path()));
    for (auto& file : compressed_arrow_files(table)) seeds.push_back(std::move(file));
  }
  return seeds;
}

[[nodiscard]] inline auto parquet_seeds() -> std::vector<Bytes> {
  std::vector<Bytes> seeds;
  for (auto const& table : small_tables()) {
    write_parquet(table, scratch_file().path());
    seeds.push_back(bytes_of_file(scratch_file().path()));
  }
  return seeds;
}

}  // namespace raytrain::testing
