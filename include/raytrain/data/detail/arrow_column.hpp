// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/type.h>
#include <arrow/util/io_util.h>

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/detail/text_codes.hpp>

namespace raytrain::detail {

/// Errors: `io` with what the system says, or `invalid_data`, with what Arrow says.
inline void check_arrow(arrow::Status const& status, std::string_view attempted) {
  if (status.ok()) return;
  if (status.IsOutOfMemory()) throw std::bad_alloc{};
  if (arrow::internal::ErrnoFromStatus(status) != 0) {
    throw Error{Errc::io, std::string{attempted}, status.message(), "check permissions, open files and the disk"};
  }
  throw Error{Errc::invalid_data, std::string{attempted}, "Arrow says: " + status.message(),
              "look at the file by another program that reads it, as pyarrow in Python"};
}

/// The file says how long what is compressed is, and that may be damaged. `what` is it, `blocks` reads it in blocks.
///
/// Errors: `invalid_data` where the status says that there is not the memory; of no other status.
inline void check_memory(arrow::Status const& status, std::string_view what, std::string_view blocks) {
  if (!status.IsOutOfMemory()) return;
  throw Error{Errc::invalid_data, fmt::format("reading {}", what),
              "there is not the memory that it asks for: " + status.message(),
              fmt::format("it is damaged, or too large: read it in blocks by {}", blocks)};
}

template <class T>
[[nodiscard]] auto value_of(arrow::Result<T> result, std::string_view attempted) -> T {
  check_arrow(result.status(), attempted);
  return std::move(result).ValueUnsafe();
}

/// Calls `work` with the values of an array of numbers, as a span of their type. Where a value is missing, the span has
/// any number in its place. Returns false, without a call, for an array of anything else, truths included.
template <class Work>
auto with_arrow_numbers(arrow::Array const& array, Work const& work) -> bool {
  auto const rows = static_cast<std::size_t>(array.length());
  auto const of = [&]<class ArrowType>(ArrowType*) {
    auto const* const first = static_cast<arrow::NumericArray<ArrowType> const&>(array).raw_values();
    if constexpr (std::same_as<ArrowType, arrow::HalfFloatType>) {
      work(std::span{reinterpret_cast<Float16 const*>(first), rows});
    } else {
      work(std::span{first, rows});
    }
    return true;
  };
  switch (array.type_id()) {
    case arrow::Type::INT8: return of(static_cast<arrow::Int8Type*>(nullptr));
    case arrow::Type::INT16: return of(static_cast<arrow::Int16Type*>(nullptr));
    case arrow::Type::INT32: return of(static_cast<arrow::Int32Type*>(nullptr));
    case arrow::Type::INT64: return of(static_cast<arrow::Int64Type*>(nullptr));
    case arrow::Type::UINT8: return of(static_cast<arrow::UInt8Type*>(nullptr));
    case arrow::Type::UINT16: return of(static_cast<arrow::UInt16Type*>(nullptr));
    case arrow::Type::UINT32: return of(static_cast<arrow::UInt32Type*>(nullptr));
    case arrow::Type::UINT64: return of(static_cast<arrow::UInt64Type*>(nullptr));
    case arrow::Type::HALF_FLOAT: return of(static_cast<arrow::HalfFloatType*>(nullptr));
    case arrow::Type::FLOAT: return of(static_cast<arrow::FloatType*>(nullptr));
    case arrow::Type::DOUBLE: return of(static_cast<arrow::DoubleType*>(nullptr));
    case arrow::Type::DATE32: return of(static_cast<arrow::Date32Type*>(nullptr));
    case arrow::Type::DATE64: return of(static_cast<arrow::Date64Type*>(nullptr));
    case arrow::Type::TIME32: return of(static_cast<arrow::Time32Type*>(nullptr));
    case arrow::Type::TIME64: return of(static_cast<arrow::Time64Type*>(nullptr));
    case arrow::Type::TIMESTAMP: return of(static_cast<arrow::TimestampType*>(nullptr));
    case arrow::Type::DURATION: return of(static_cast<arrow::DurationType*>(nullptr));
    default: return false;
  }
}

/// Calls `work` with each row's text, or none where it is missing. Whether it is an array of text that is no
/// dictionary.
template <class Work>
auto with_plain_texts(arrow::Array const& array, Work const& work) -> bool {
  auto const of = [&]<class A>(A const& texts) {
    for (std::int64_t row = 0; row < texts.length(); ++row) {
      work(texts.IsNull(row) ? std::nullopt : std::optional{std::string_view{texts.GetView(row)}});
    }
    return true;
  };
  switch (array.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY: return of(static_cast<arrow::BinaryArray const&>(array));
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY: return of(static_cast<arrow::LargeBinaryArray const&>(array));
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW: return of(static_cast<arrow::BinaryViewArray const&>(array));
    default: return false;
  }
}

/// The same, also of a dictionary, which must have all places that are asked for.
template <class Work>
auto with_arrow_texts(arrow::Array const& array, Work const& work) -> bool {
  if (array.type_id() != arrow::Type::DICTIONARY) return with_plain_texts(array, work);
  auto const& coded = static_cast<arrow::DictionaryArray const&>(array);
  std::vector<std::optional<std::string_view>> texts;
  if (!with_plain_texts(*coded.dictionary(), [&](auto text) { texts.push_back(text); })) return false;
  for (std::int64_t row = 0; row < coded.length(); ++row) {
    work(coded.IsNull(row) ? std::nullopt : texts[static_cast<std::size_t>(coded.GetValueIndex(row))]);
  }
  return true;
}

/// The values that the places of a dictionary stand for, unless they are texts; another array as it is.
[[nodiscard]] inline auto without_number_dictionary(std::shared_ptr<arrow::Array> array, std::string_view attempted)
    -> std::shared_ptr<arrow::Array> {
  if (array->type_id() != arrow::Type::DICTIONARY) return array;
  auto const& coded = static_cast<arrow::DictionaryArray const&>(*array);
  if (with_plain_texts(*coded.dictionary()->Slice(0, 0), [](auto) {})) return array;
  auto const builder = value_of(arrow::MakeBuilder(coded.dictionary()->type()), attempted);
  arrow::ArraySpan const values{*coded.dictionary()->data()};
  for (std::int64_t row = 0; row < coded.length(); ++row) {
    check_arrow(
        coded.IsNull(row) ? builder->AppendNull() : builder->AppendArraySlice(values, coded.GetValueIndex(row), 1),
        attempted);
  }
  return value_of(builder->Finish(), attempted);
}

/// A column of Arrow's arrays that grows array by array.
///
/// Errors: `invalid_data`, with `what` was read, for what is no column, or no part of this one.
class ArrowColumn {
 public:
  /// `options`: the struct by which its reader is told what to read, for errors: "ParquetOptions".
  ArrowColumn(std::string name, std::optional<ElementType> asked, std::string_view options)
      : name_{std::move(name)}, asked_{asked}, options_{options} {}

  [[nodiscard]] auto name() const noexcept -> std::string const& { return name_; }

  /// An array that is empty adds nothing.
  void add(std::shared_ptr<arrow::Array> array, std::string const& what) {
    if (array->length() == 0) return;
    check_places(*array, what);
    array = without_number_dictionary(std::move(array), "reading " + what);
    std::size_t depth = 0;
    for (; auto const extent = list_extent(*array, what); ++depth) {
      if (depth == shape_.size() && !is_begun_) shape_.push_back(*extent);
      if (depth >= shape_.size()) break;
      if (shape_[depth] != *extent) {
        refuse(what, fmt::format("a list has {} elements, and others have {}", *extent, shape_[depth]));
      }
      array = without_list(*array, what);
    }
    if (depth != shape_.size()) refuse(what, "it has more or fewer lists around a value than before");
    is_begun_ = true;
    if (array->type_id() != arrow::Type::NA) decide(*array, what);
    parts_.push_back({std::move(array), what});
  }

  /// The rows that came since the last time. More may follow, of the same type and shape.
  [[nodiscard]] auto take() -> Column {
    auto const parts = std::exchange(parts_, {});
    if (!is_decided_) type_ = asked_.value_or(ElementType::float32);
    is_decided_ = true;
    if (is_text_) return text_column(parts);
    if (parts.size() == 1 && parts.front().array->null_count() == 0) {
      if (auto same = adopted(parts.front().array)) return *std::move(same);
    }
    std::size_t values = 0;
    for (auto const& part : parts) values += static_cast<std::size_t>(part.array->length());
    std::optional<Column> column;
    with_element_type(type_, [&]<Element T>(T*) {
      std::vector<T> numbers;
      numbers.reserve(values);
      for (auto const& part : parts) append(numbers, *part.array, part.what);
      column.emplace(name_, std::move(numbers), shape_);
    });
    return is_boolean_ ? column->numbers_as_booleans() : *std::move(column);
  }

 private:
  struct Part {
    std::shared_ptr<arrow::Array> array;  ///< Without lists.
    std::string what;                     ///< That it was read from.
  };

  /// Of a dictionary: Arrow takes them from a Parquet file as they are there.
  void check_places(arrow::Array const& array, std::string const& what) const {
    if (array.type_id() != arrow::Type::DICTIONARY) return;
    auto const& coded = static_cast<arrow::DictionaryArray const&>(array);
    auto const values = coded.dictionary()->length();
    for (std::int64_t row = 0; row < coded.length(); ++row) {
      if (coded.IsNull(row)) continue;
      auto const place = coded.GetValueIndex(row);
      if (place >= 0 && place < values) continue;
      refuse(what, fmt::format("a row has the value {} of a dictionary of {}", place, values),
             "the file is damaged: fetch or write it again");
    }
  }

  /// None of what is no list.
  [[nodiscard]] auto list_extent(arrow::Array const& array, std::string const& what) const
      -> std::optional<std::size_t> {
    auto const of = [&](auto const& lists) {
      if (lists.null_count() > 0) refuse(what, fmt::format("{} lists are missing", lists.null_count()));
      auto const extent = lists.value_length(0);
      for (std::int64_t row = 1; row < lists.length(); ++row) {
        if (lists.value_length(row) != extent) {
          refuse(what, fmt::format("a list has {} elements, and others have {}", lists.value_length(row), extent));
        }
      }
      if (extent == 0) refuse(what, "a list is empty, and no row can be");
      return std::optional{static_cast<std::size_t>(extent)};
    };
    switch (array.type_id()) {
      case arrow::Type::FIXED_SIZE_LIST: return of(static_cast<arrow::FixedSizeListArray const&>(array));
      case arrow::Type::LIST: return of(static_cast<arrow::ListArray const&>(array));
      case arrow::Type::LARGE_LIST: return of(static_cast<arrow::LargeListArray const&>(array));
      default: return std::nullopt;
    }
  }

  [[nodiscard]] static auto without_list(arrow::Array const& array, std::string const& what)
      -> std::shared_ptr<arrow::Array> {
    auto const attempted = "reading " + what;
    switch (array.type_id()) {
      case arrow::Type::FIXED_SIZE_LIST:
        return value_of(static_cast<arrow::FixedSizeListArray const&>(array).Flatten(), attempted);
      case arrow::Type::LIST: return value_of(static_cast<arrow::ListArray const&>(array).Flatten(), attempted);
      default: return value_of(static_cast<arrow::LargeListArray const&>(array).Flatten(), attempted);
    }
  }

  /// By the first array that has values.
  void decide(arrow::Array const& array, std::string const& what) {
    auto const is_text = with_arrow_texts(*array.Slice(0, 0), [](auto) {});
    auto type = is_text ? std::optional{ElementType::int32} : std::nullopt;
    auto const is_boolean = array.type_id() == arrow::Type::BOOL && !asked_;
    if (array.type_id() == arrow::Type::BOOL) type = ElementType::uint8;
    with_arrow_numbers(array, [&]<class S>(std::span<S const>) { type = element_type<S>; });
    if (!type) {
      refuse(what, fmt::format("no column is made of Arrow's type {}", array.type()->ToString()));
    }
    if (is_text && !shape_.empty()) refuse(what, "it has lists of texts");
    if (is_text && asked_) refuse(what, fmt::format("it has texts, and is to be {}", to_string(*asked_)));
    auto const id = array.type_id();
    auto const is_time = arrow::is_temporal(id) || id == arrow::Type::DURATION;
    // Whose numbers are of other units.
    if (arrow_type_ && (is_time || is_time_) && !arrow_type_->Equals(array.type())) {
      refuse(what, fmt::format("it is of Arrow's type {} here, and of {} before", array.type()->ToString(),
                               arrow_type_->ToString()));
    }
    arrow_type_ = array.type();
    is_time_ = is_time;
    if (asked_) type = asked_;
    auto const name_of = [](ElementType numbers, bool are_texts, bool are_booleans) {
      return are_texts ? "texts" : are_booleans ? "booleans" : to_string(numbers);
    };
    if (is_decided_ && (is_text != is_text_ || is_boolean != is_boolean_ || *type != type_)) {
      refuse(what, fmt::format("it has {} here, and {} before", name_of(*type, is_text, is_boolean),
                               name_of(type_, is_text_, is_boolean_)));
    }
    is_decided_ = true;
    is_text_ = is_text;
    is_boolean_ = is_boolean;
    type_ = *type;
  }

  [[nodiscard]] auto text_column(std::vector<Part> const& parts) const -> Column {
    TextCodes codes;
    for (auto const& [array, what] : parts) {
      if (with_arrow_texts(*array, [&](auto text) { codes.add(text); })) continue;
      for (std::int64_t row = 0; row < array->length(); ++row) codes.add(std::nullopt);
    }
    return std::move(codes).take(name_);
  }

  /// The same memory, where its numbers are of the column's type.
  [[nodiscard]] auto adopted(std::shared_ptr<arrow::Array> const& part) const -> std::optional<Column> {
    std::optional<Column> column;
    with_arrow_numbers(*part, [&]<class S>(std::span<S const> values) {
      if (element_type<S> != type_) return;
      std::shared_ptr<std::byte const> const first{part, reinterpret_cast<std::byte const*>(values.data())};
      std::size_t row_values = 1;
      for (auto const extent : shape_) row_values *= extent;
      column.emplace(ColumnFormat{name_, type_, shape_}, first, values.size() / row_values);
    });
    return column;
  }

  template <Element T>
  void append(std::vector<T>& numbers, arrow::Array const& part, std::string const& what) const {
    auto const first = numbers.size();
    auto const add_all = [&]<class S>(std::span<S const> values) {
      if constexpr (element_type<S> == element_type<T>) {
        auto const* const same = reinterpret_cast<T const*>(values.data());
        numbers.insert(numbers.end(), same, same + values.size());
      } else {
        for (std::size_t row = 0; row < values.size(); ++row) {
          auto const is_missing = part.IsNull(static_cast<std::int64_t>(row));
          numbers.push_back(is_missing ? T{} : converted<T>(values[row], what));
        }
      }
    };
    if (part.type_id() == arrow::Type::BOOL) {
      auto const& truths = static_cast<arrow::BooleanArray const&>(part);
      std::vector<std::uint8_t> values;
      for (std::int64_t row = 0; row < truths.length(); ++row) values.push_back(truths.Value(row) ? 1 : 0);
      add_all(std::span<std::uint8_t const>{values});
    } else if (!with_arrow_numbers(part, add_all)) {
      numbers.resize(first + static_cast<std::size_t>(part.length()));  // all are missing
    }
    if (part.null_count() == 0) return;
    if constexpr (std::integral<T>) {
      refuse(what, fmt::format("{} values are missing, and {} has no NaN", part.null_count(), to_string(type_)),
             fmt::format("make it float32 or float64 by {}::types", options_));
    } else {
      for (std::int64_t row = 0; row < part.length(); ++row) {
        if (part.IsNull(row))
          numbers[first + static_cast<std::size_t>(row)] = T{std::numeric_limits<float>::quiet_NaN()};
      }
    }
  }

  template <Element T, Element S>
  [[nodiscard]] auto converted(S value, std::string const& what) const -> T {
    if constexpr (!std::is_arithmetic_v<S>) {
      return converted<T>(static_cast<float>(value), what);
    } else if constexpr (!std::is_arithmetic_v<T>) {
      return T{static_cast<float>(value)};
    } else if constexpr (std::floating_point<T>) {
      return static_cast<T>(value);
    } else {
      if (!fits<T>(value)) {
        refuse(what, fmt::format("{} does not hold {}", to_string(type_), value),
               fmt::format("give it a wider type by {}::types", options_));
      }
      return static_cast<T>(value);
    }
  }

  template <std::integral T, class S>
  [[nodiscard]] static auto fits(S value) -> bool {
    if constexpr (std::integral<S>) {
      return std::in_range<T>(value);
    } else {
      auto const end = std::ldexp(S{1}, std::numeric_limits<T>::digits);  // the first that is too large
      return value < end && value >= (std::is_signed_v<T> ? -end : S{0}) && std::trunc(value) == value;
    }
  }

  [[noreturn]] void refuse(std::string const& what, std::string const& problem) const {
    refuse(what, problem, fmt::format("leave it out by {}::columns, or write it in another way", options_));
  }

  [[noreturn]] void refuse(std::string const& what, std::string const& problem, std::string const& remedy) const {
    throw Error{Errc::invalid_data, "reading " + what, fmt::format("column '{}': {}", name_, problem), remedy};
  }

  std::string name_;
  std::optional<ElementType> asked_;
  std::string options_;
  bool is_begun_ = false;  ///< `shape_` is known.
  RowShape shape_;
  bool is_decided_ = false;  ///< The type is known.
  bool is_text_ = false;
  bool is_boolean_ = false;
  ElementType type_ = ElementType::float32;
  std::shared_ptr<arrow::DataType> arrow_type_;  ///< Of the values of the last array that had some.
  bool is_time_ = false;                         ///< Whether it is one of dates, times or durations.
  std::vector<Part> parts_;
};

}  // namespace raytrain::detail
