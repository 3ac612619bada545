// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/api.h>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/arrow_column.hpp>

namespace raytrain::detail {

/// Errors: `invalid_data` for bfloat16.
[[nodiscard]] inline auto arrow_type_of(ElementType type, std::string const& attempted)
    -> std::shared_ptr<arrow::DataType> {
  switch (type) {
    case ElementType::float32: return arrow::float32();
    case ElementType::float64: return arrow::float64();
    case ElementType::int8: return arrow::int8();
    case ElementType::int16: return arrow::int16();
    case ElementType::int32: return arrow::int32();
    case ElementType::int64: return arrow::int64();
    case ElementType::uint8: return arrow::uint8();
    case ElementType::uint16: return arrow::uint16();
    case ElementType::uint32: return arrow::uint32();
    case ElementType::uint64: return arrow::uint64();
    case ElementType::float16: return arrow::float16();
    case ElementType::bfloat16: break;
  }
  throw Error{Errc::invalid_data, attempted, "Arrow has no bfloat16", "convert the column to float32"};
}

/// Errors: `invalid_data` for a text that is not UTF-8.
[[nodiscard]] inline auto arrow_texts_of(Column const& column, std::string const& attempted)
    -> std::shared_ptr<arrow::Array> {
  arrow::LargeStringBuilder texts;
  for (std::size_t row = 0; row < column.rows(); ++row) {
    auto const text = column.text(row);
    if (text && !is_utf8(*text)) {
      throw Error{Errc::invalid_data, attempted,
                  fmt::format("column '{}' has the text '{}', which is not UTF-8, as Arrow's texts are", column.name(),
                              to_utf8(*text)),
                  "drop the column, or write it in another way, as in base64"};
    }
    check_arrow(text ? texts.Append(*text) : texts.AppendNull(), attempted);
  }
  return value_of(texts.Finish(), attempted);
}

/// One bit for each value. Errors: `invalid_data` for one that is neither 0 nor 1.
[[nodiscard]] inline auto arrow_booleans_of(Column const& column, std::string const& attempted)
    -> std::shared_ptr<arrow::Array> {
  column.check_booleans(attempted);
  auto const values = column.as<std::uint8_t>();
  arrow::BooleanBuilder booleans;
  check_arrow(booleans.AppendValues(values.data(), static_cast<std::int64_t>(values.size())), attempted);
  return value_of(booleans.Finish(), attempted);
}

/// Its memory is that of the column, but for text and booleans. Errors: as of `write_parquet` and `write_arrow`.
[[nodiscard]] inline auto arrow_array_of(Column const& column, std::string const& attempted)
    -> std::shared_ptr<arrow::Array> {
  if (column.is_text()) return arrow_texts_of(column, attempted);
  auto const array_of_values = [&] {
    if (column.is_boolean()) return arrow_booleans_of(column, attempted);
    auto const bytes = column.bytes();
    auto const buffer = std::make_shared<arrow::Buffer>(reinterpret_cast<std::uint8_t const*>(bytes.data()),
                                                        static_cast<std::int64_t>(bytes.size()));
    auto const values = static_cast<std::int64_t>(column.rows() * column.row_values());
    return arrow::MakeArray(
        arrow::ArrayData::Make(arrow_type_of(column.type(), attempted), values, {nullptr, buffer}, 0));
  };
  auto array = array_of_values();
  for (auto const extent : column.row_shape() | std::views::reverse) {
    array = value_of(arrow::FixedSizeListArray::FromArrays(array, static_cast<std::int32_t>(extent)), attempted);
  }
  return array;
}

/// The dataset must outlive it. Errors: as of `write_parquet` and `write_arrow`.
[[nodiscard]] inline auto arrow_table_of(Dataset const& dataset, std::string const& attempted)
    -> std::shared_ptr<arrow::Table> {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (auto const& column : dataset.columns()) {
    if (!is_utf8(column.name())) {
      throw Error{Errc::invalid_data, attempted,
                  fmt::format("a column's name, '{}', is not UTF-8, as Arrow's names are", to_utf8(column.name())),
                  "rename it by rename_columns"};
    }
    arrays.push_back(arrow_array_of(column, attempted));
    fields.push_back(arrow::field(column.name(), arrays.back()->type()));
  }
  return arrow::Table::Make(arrow::schema(std::move(fields)), std::move(arrays),
                            static_cast<std::int64_t>(dataset.rows()));
}

}  // namespace raytrain::detail
