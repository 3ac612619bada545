// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/core/error.hpp>

namespace raytrain {

/// Value of one metric. A NaN or an infinity is kept as it is.
using MetricValue = std::variant<bool, std::int64_t, double, std::string>;

/// Named values in the order in which they were reported. Names are unique.
///
/// Cost: finding a name, and setting one, takes as long among thousands as among a few.
class Metrics {
 public:
  struct Entry {
    std::string name;
    MetricValue value;
    /// A NaN equals a NaN, so that what was written can be told from what was changed.
    auto operator==(Entry const& other) const -> bool;
  };

  Metrics() = default;
  Metrics(std::initializer_list<Entry> entries);

  /// Replaces the value of `name`, or appends it.
  ///
  /// Errors: `invalid_report` for an integer above the largest std::int64_t.
  template <class T>
  void set(std::string_view name, T&& value) {
    put(name, to_value(name, std::forward<T>(value)));
  }

  /// Null if there is no metric of that name.
  [[nodiscard]] auto find(std::string_view name) const noexcept -> MetricValue const*;

  [[nodiscard]] auto contains(std::string_view name) const noexcept -> bool { return find(name) != nullptr; }

  /// Errors: `not_found` when there is no such metric, listing those that are there.
  [[nodiscard]] auto at(std::string_view name) const -> MetricValue const&;

  /// The metric as a number; a bool counts as 0 or 1, and text is nothing.
  [[nodiscard]] auto number(std::string_view name) const noexcept -> std::optional<double>;

  /// "loss, accuracy", or "(none)".
  [[nodiscard]] auto names() const -> std::string;

  void reserve(std::size_t count);
  [[nodiscard]] auto size() const noexcept -> std::size_t { return entries_.size(); }
  [[nodiscard]] auto empty() const noexcept -> bool { return entries_.empty(); }
  [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
  [[nodiscard]] auto end() const noexcept { return entries_.end(); }

  auto operator==(Metrics const& other) const -> bool;

 private:
  void put(std::string_view name, MetricValue value);
  auto find_entry(std::string_view name) noexcept -> Entry*;
  void grow_slots();
  // The slot of that name, or the free one where it belongs.
  [[nodiscard]] auto slot_of(std::string_view name) const noexcept -> std::size_t;

  template <class T>
  static auto to_value(std::string_view name, T&& value) -> MetricValue {
    using Plain = std::remove_cvref_t<T>;
    if constexpr (std::same_as<Plain, MetricValue>) {
      return std::forward<T>(value);
    } else if constexpr (std::same_as<Plain, bool>) {
      return value;
    } else if constexpr (std::integral<Plain>) {
      if constexpr (std::unsigned_integral<Plain> && sizeof(Plain) == sizeof(std::int64_t)) {
        if (value > static_cast<Plain>(std::numeric_limits<std::int64_t>::max())) {
          throw Error{Errc::invalid_report, "metric '" + std::string{name} + "'",
                      "must be at most 9223372036854775807 (got " + std::to_string(value) + ")",
                      "report it as a double"};
        }
      }
      return static_cast<std::int64_t>(value);
    } else if constexpr (std::floating_point<Plain>) {
      return static_cast<double>(value);
    } else {
      return std::string{std::forward<T>(value)};
    }
  }

  std::vector<Entry> entries_;
  // By the hash of a name: the place of its entry, counted from 1, or 0 in a free slot. Empty while entries are few.
  std::vector<std::uint32_t> slots_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/metrics-inl.hpp>
#endif
