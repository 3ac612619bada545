// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/detail/arrow_column.hpp>

#include <arrow/array/array_dict.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <raytrain/data/detail/arrow_columns.hpp>

#include "../support/thrown_error.hpp"

using raytrain::testing::thrown_error;

TEST_CASE(
    "a value that its dictionary does not have is refused, of texts and of numbers, and no memory beside it is read") {
  auto const array_of = [](auto builder, auto const& values) {
    for (auto const& value : values) CHECK(builder.Append(value).ok());
    return builder.Finish().ValueOrDie();
  };
  auto const dictionaries = {array_of(arrow::StringBuilder{}, std::vector<std::string>{"cat", "dog"}),
                             array_of(arrow::FloatBuilder{}, std::vector{1.0F, 2.0F})};
  for (auto const& dictionary : dictionaries) {
    for (std::int32_t const place : {-1, 2, 1 << 30}) {
      CAPTURE(place);
      auto const coded = std::make_shared<arrow::DictionaryArray>(
          arrow::dictionary(arrow::int32(), dictionary->type()),
          array_of(arrow::Int32Builder{}, std::vector<std::int32_t>{0, place}), dictionary);
      raytrain::detail::ArrowColumn column{"kind", {}, "ParquetOptions"};
      CHECK(thrown_error([&] {
              column.add(coded, "Parquet file 'x'");
              (void)column.take();
            }) == fmt::format("invalid_data: reading Parquet file 'x': column 'kind': a row has the value {} of a "
                              "dictionary of 2; the file is damaged: fetch or write it again",
                              static_cast<std::uint32_t>(place)));
    }
  }
}

TEST_CASE("rows without a column that the file's schema has are refused, as a table and in blocks") {
  arrow::FloatBuilder builder;
  CHECK(builder.Append(1).ok());
  auto const rows = arrow::RecordBatch::Make(arrow::schema({arrow::field("x", arrow::float32())}), 1,
                                             {builder.Finish().ValueOrDie()});
  auto const refused = [](auto const& some) {
    raytrain::detail::ArrowColumns columns{"ParquetOptions", {}, {}};
    columns.begin_file({"x", "y"}, "Parquet file 'f'");
    return thrown_error([&] { columns.add(some); });
  };
  auto const* const text =
      "invalid_data: reading Parquet file 'f': its rows have no column 'y', and its schema has; leave it out by "
      "ParquetOptions::columns, or write the file again";
  CHECK(refused(*rows) == text);
  CHECK(refused(*arrow::Table::FromRecordBatches({rows}).ValueOrDie()) == text);
}
