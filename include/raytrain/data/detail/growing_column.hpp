// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <raytrain/data/column.hpp>
#include <raytrain/data/csv_type.hpp>
#include <raytrain/data/detail/text_codes.hpp>

namespace raytrain::detail {

/// Errors: `invalid_config`, always.
[[noreturn]] void refuse_twice(std::string_view field, std::string_view name);

/// A column that grows value by value from what a file of text has. Its first value decides where nobody has said its
/// type: a number makes it float32, where whole numbers that float32 has not are refused; a text makes it text.
class GrowingColumn {
 public:
  GrowingColumn(std::string name, std::optional<CsvType> type);

  [[nodiscard]] auto name() const noexcept -> std::string const& { return name_; }
  [[nodiscard]] auto is_decided() const noexcept -> bool { return is_decided_; }
  /// Of no value so far, it is of numbers, unless somebody has said another type.
  void decide() noexcept { is_decided_ = true; }
  [[nodiscard]] auto is_text() const noexcept -> bool { return texts_.has_value(); }

  [[nodiscard]] auto holds_numbers() const noexcept -> bool { return is_decided_ && !is_text(); }

  [[nodiscard]] auto holds_booleans() const noexcept -> bool {
    return !is_text() && std::holds_alternative<std::vector<std::uint8_t>>(numbers_);
  }

  /// False when the text is no number, or boolean, that the column can hold, and where it holds texts.
  [[nodiscard]] auto add_number(std::string_view text) -> bool;

  /// False where it holds numbers.
  [[nodiscard]] auto add_text(std::string_view text) -> bool;

  /// NaN or no text, so many times. False for integers, of which none can be missing.
  [[nodiscard]] auto add_missing(std::size_t values = 1) -> bool;

  /// The same, before all others; of numbers.
  [[nodiscard]] auto prepend_missing(std::size_t values) -> bool;

  /// One that decides nothing else, without values.
  [[nodiscard]] auto without_values() const -> GrowingColumn;

  /// `count` values of one that is of the same type, from `first` on.
  void add_values(GrowingColumn const& part, std::size_t first, std::size_t count);

  /// The rows that came since the last time. More may follow, of the type that it has now.
  [[nodiscard]] auto take(RowShape row_shape = {}) -> Column;

 private:
  /// Whether the text is a whole number other than the one that its column holds for it, the last one.
  [[nodiscard]] auto is_rounded(std::string_view text) const -> bool;

  std::string name_;
  bool is_inferred_;  ///< Nobody has asked for its type.
  bool is_decided_;
  std::variant<std::vector<float>, std::vector<double>, std::vector<std::int32_t>, std::vector<std::int64_t>,
               std::vector<std::uint8_t>>
      numbers_;
  std::optional<TextCodes> texts_;  ///< Instead of numbers.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/growing_column-inl.hpp>
#endif
