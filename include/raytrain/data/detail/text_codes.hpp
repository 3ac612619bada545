// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
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

  /// A text that no row may have. Returns its number, in the order in which texts were first met. Errors: as `add`.
  [[nodiscard]] auto add_category(std::string_view text) -> std::int32_t;

  /// With sorted categories, so that codes are in the order of the texts, whatever the order of the rows.
  [[nodiscard]] auto take(std::string name) && -> Column;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> numbers_;
  std::vector<std::int32_t> rows_;  ///< In the order in which texts were first met, or -1.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/text_codes-inl.hpp>
#endif
