// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace raytrain {
class Column;
}  // namespace raytrain

namespace raytrain::detail {

/// A column of text that grows row by row.
class TextCodes {
 public:
  /// Errors: `invalid_data` for more different texts than int32 can number.
  void add(std::optional<std::string_view> text);

  /// The rows of a column of text.
  void add(Column const& column);

  /// `count` rows of another one, from row `first` on.
  void add(TextCodes const& part, std::size_t first, std::size_t count);

  /// A text that no row may have. Returns its number, in the order in which texts were first met. Errors: as `add`.
  [[nodiscard]] auto add_category(std::string_view text) -> std::int32_t;

  /// With sorted categories, so that codes are in the order of the texts, whatever the order of the rows.
  [[nodiscard]] auto take(std::string name) && -> Column;

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t number = -1;  ///< Of the text; -1 where there is none.
  };

  /// That of a text which has this hash, or the one that it would have.
  [[nodiscard]] auto slot_of(std::string_view text, std::uint32_t hash) -> Slot&;

  void grow();

  std::vector<std::string> texts_;  ///< In the order in which they were first met.
  /// Where texts are found: a power of two of them, at most half of which have one, each at its hash or behind it. Most
  /// values are looked for and found, for which this takes two thirds of the time of `std::unordered_map`.
  std::vector<Slot> slots_ = std::vector<Slot>(16);
  std::vector<std::int32_t> rows_;  ///< In the order in which texts were first met, or -1.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/text_codes-inl.hpp>
#endif
