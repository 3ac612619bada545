// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/api.h>
#include <parquet/arrow/writer.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include <raytrain/data/detail/arrow_file_writer.hpp>

namespace raytrain::detail {

struct ParquetFormat {
  static constexpr std::string_view name = "Parquet";
  static constexpr std::int64_t part_rows = std::int64_t{1} << 20U;

  [[nodiscard]] static auto open(std::shared_ptr<NewFileStream> const& stream,
                                 std::shared_ptr<arrow::Schema> const& schema)
      -> arrow::Result<std::unique_ptr<parquet::arrow::FileWriter>> {
    auto const properties =
        parquet::WriterProperties::Builder{}.compression(parquet::Compression::SNAPPY)->enable_page_checksum()->build();
    // By which Arrow finds row shapes and types again.
    auto const with_schema = parquet::ArrowWriterProperties::Builder{}.store_schema()->build();
    return parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), stream, properties, with_schema);
  }
};

using ParquetFileWriter = ArrowFileWriter<ParquetFormat>;

}  // namespace raytrain::detail
