// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/xxh3.hpp>
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

RAYTRAIN_INLINE void TextCodes::add(TextCodes const& part, std::size_t first, std::size_t count) {
  std::vector<std::int32_t> numbers(part.texts_.size(), -1);  // of texts that come in these rows
  for (auto const code : std::span{part.rows_}.subspan(first, count)) {
    if (code < 0) {
      rows_.push_back(code);
      continue;
    }
    auto const at = static_cast<std::size_t>(code);
    if (numbers[at] < 0) numbers[at] = add_category(part.texts_[at]);
    rows_.push_back(numbers[at]);
  }
}

RAYTRAIN_INLINE auto TextCodes::add_category(std::string_view text) -> std::int32_t {
  auto const hash = static_cast<std::uint32_t>(xxh3_64_of(bytes_of(text)));
  auto& slot = slot_of(text, hash);
  if (slot.number >= 0) return slot.number;
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
  if (texts_.size() == most) {
    throw Error{Errc::invalid_data, "a column of text", fmt::format("more than {} texts differ", most),
                "leave the column out"};
  }
  auto const number = static_cast<std::int32_t>(texts_.size());
  texts_.emplace_back(text);
  slot = {hash, number};
  if (2 * texts_.size() > slots_.size()) grow();
  return number;
}

RAYTRAIN_INLINE auto TextCodes::slot_of(std::string_view text, std::uint32_t hash) -> Slot& {
  auto const mask = slots_.size() - 1;
  for (auto at = hash & mask;; at = (at + 1) & mask) {
    auto& slot = slots_[at];
    if (slot.number < 0 || (slot.hash == hash && texts_[static_cast<std::size_t>(slot.number)] == text)) return slot;
  }
}

RAYTRAIN_INLINE void TextCodes::grow() {
  std::vector<Slot> const slots = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  auto const mask = slots_.size() - 1;
  for (auto const& slot : slots) {
    if (slot.number < 0) continue;
    auto at = slot.hash & mask;
    while (slots_[at].number >= 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

RAYTRAIN_INLINE auto TextCodes::take(std::string name) && -> Column {
  std::vector<std::int32_t> sorted(texts_.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  auto const text_of = [&](std::int32_t number) -> std::string& { return texts_[static_cast<std::size_t>(number)]; };
  std::ranges::sort(sorted, {}, text_of);
  auto categories = std::make_shared<std::vector<std::string>>();
  categories->reserve(texts_.size());
  std::vector<std::int32_t> codes(sorted.size());
  for (auto const number : sorted) {
    codes[static_cast<std::size_t>(number)] = static_cast<std::int32_t>(categories->size());
    categories->push_back(std::move(text_of(number)));
  }
  for (auto& row : rows_) row = row < 0 ? row : codes[static_cast<std::size_t>(row)];
  auto const rows = std::make_shared<std::vector<std::int32_t> const>(std::move(rows_));
  return {ColumnFormat{std::move(name), ElementType::int32, {}, std::move(categories)},
          {rows, reinterpret_cast<std::byte const*>(rows->data())},
          rows->size()};
}

}  // namespace raytrain::detail
