// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/detail/text_codes.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void TextCodes::add(std::optional<std::string_view> text) {
  if (!text) {
    rows_.push_back(-1);
    return;
  }
  rows_.push_back(add_category(*text));
}

RAYTRAIN_INLINE void TextCodes::add(Column const& column) {
  std::vector<std::int32_t> numbers;
  for (auto const& text : column.categories()) numbers.push_back(add_category(text));
  for (auto const code : column.as<std::int32_t>()) {
    rows_.push_back(code < 0 ? code : numbers[static_cast<std::size_t>(code)]);
  }
}

RAYTRAIN_INLINE auto TextCodes::add_category(std::string_view text) -> std::int32_t {
  auto found = numbers_.find(text);
  if (found == numbers_.end()) {
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
    if (numbers_.size() == most) {
      throw Error{Errc::invalid_data, "a column of text", fmt::format("more than {} texts differ", most),
                  "leave the column out"};
    }
    found = numbers_.emplace(text, static_cast<std::int32_t>(numbers_.size())).first;
  }
  return found->second;
}

RAYTRAIN_INLINE auto TextCodes::take(std::string name) && -> Column {
  std::vector<std::pair<std::string, std::int32_t>> sorted;
  while (!numbers_.empty()) {
    auto node = numbers_.extract(numbers_.begin());
    sorted.emplace_back(std::move(node.key()), node.mapped());
  }
  std::ranges::sort(sorted);
  auto categories = std::make_shared<std::vector<std::string>>();
  std::vector<std::int32_t> codes(sorted.size());
  for (auto& [text, number] : sorted) {
    codes[static_cast<std::size_t>(number)] = static_cast<std::int32_t>(categories->size());
    categories->push_back(std::move(text));
  }
  for (auto& row : rows_) row = row < 0 ? row : codes[static_cast<std::size_t>(row)];
  auto const rows = std::make_shared<std::vector<std::int32_t> const>(std::move(rows_));
  return {ColumnFormat{std::move(name), ElementType::int32, {}, std::move(categories)},
          {rows, reinterpret_cast<std::byte const*>(rows->data())},
          rows->size()};
}

}  // namespace raytrain::detail
