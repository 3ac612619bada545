// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto Metrics::Entry::operator==(Entry const& other) const -> bool {
  auto const* const x = std::get_if<double>(&value);
  auto const* const y = std::get_if<double>(&other.value);
  if (x != nullptr && y != nullptr && std::isnan(*x) && std::isnan(*y)) return name == other.name;
  return name == other.name && value == other.value;
}

RAYTRAIN_INLINE Metrics::Metrics(std::initializer_list<Entry> entries) {
  for (auto const& entry : entries) set(entry.name, entry.value);
}

RAYTRAIN_INLINE void Metrics::reserve(std::size_t count) { entries_.reserve(count); }

RAYTRAIN_INLINE auto Metrics::operator==(Metrics const& other) const -> bool { return entries_ == other.entries_; }

RAYTRAIN_INLINE auto Metrics::find(std::string_view name) const noexcept -> MetricValue const* {
  auto const* const entry = const_cast<Metrics*>(this)->find_entry(name);
  return entry != nullptr ? &entry->value : nullptr;
}

RAYTRAIN_INLINE auto Metrics::at(std::string_view name) const -> MetricValue const& {
  if (auto const* const value = find(name)) return *value;
  throw Error{Errc::not_found, "metric '" + std::string{name} + "'", "is not among the reported ones: " + names(),
              "name one of them, or add a field to the report"};
}

RAYTRAIN_INLINE auto Metrics::number(std::string_view name) const noexcept -> std::optional<double> {
  auto const* const value = find(name);
  if (value == nullptr) return std::nullopt;
  return std::visit(
      []<class T>(T const& v) -> std::optional<double> {
        if constexpr (std::convertible_to<T, double>) {
          return static_cast<double>(v);
        } else {
          return std::nullopt;
        }
      },
      *value);
}

RAYTRAIN_INLINE auto Metrics::names() const -> std::string {
  std::string text;
  for (auto const& entry : entries_) text += (text.empty() ? "" : ", ") + entry.name;
  return text.empty() ? "(none)" : text;
}

RAYTRAIN_INLINE void Metrics::put(std::string_view name, MetricValue value) {
  if (auto* const found = find_entry(name)) {
    found->value = std::move(value);
    return;
  }
  constexpr std::size_t few = 32;  // as fast to look through as a hash is to make
  if (entries_.size() >= few && slots_.size() < 2 * (entries_.size() + 1)) grow_slots();
  entries_.push_back(Entry{std::string{name}, std::move(value)});
  if (!slots_.empty()) slots_[slot_of(name)] = static_cast<std::uint32_t>(entries_.size());
}

RAYTRAIN_INLINE void Metrics::grow_slots() {
  slots_ = std::vector<std::uint32_t>(std::bit_ceil(4 * entries_.size()));
  std::uint32_t place = 0;
  for (auto const& entry : entries_) slots_[slot_of(entry.name)] = ++place;
}

RAYTRAIN_INLINE auto Metrics::slot_of(std::string_view name) const noexcept -> std::size_t {
  auto slot = std::hash<std::string_view>{}(name) % slots_.size();
  while (slots_[slot] != 0 && entries_[slots_[slot] - 1].name != name) slot = (slot + 1) % slots_.size();
  return slot;
}

RAYTRAIN_INLINE auto Metrics::find_entry(std::string_view name) noexcept -> Entry* {
  if (!slots_.empty()) {
    auto const place = slots_[slot_of(name)];
    return place == 0 ? nullptr : &entries_[place - 1];
  }
  auto const found = std::ranges::find(entries_, name, &Entry::name);
  return found == entries_.end() ? nullptr : &*found;
}

}  // namespace raytrain
