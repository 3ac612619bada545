// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/core.h>

namespace raytrain::detail {

/// Converts to any type but a union. For asking the compiler what an aggregate can be made of.
struct AnyValue {
  template <class U>
  requires(!std::is_union_v<U>) operator U() const;  // NOLINT(google-explicit-constructor)
};
struct AnyUnion {
  template <class U>
  requires std::is_union_v<U>
  operator U() const;  // NOLINT(google-explicit-constructor)
};
template <class T>
struct AnyBase {
  template <class U>
  requires(std::is_base_of_v<U, T> && !std::is_same_v<U, T>) operator U() const;  // NOLINT(google-explicit-constructor)
};
template <std::size_t>
using AnyValueAt = AnyValue;

inline constexpr std::size_t most_members = 16;

template <class T, std::size_t... I>
consteval auto takes(std::index_sequence<I...>) -> bool {
  return requires { T{AnyValueAt<I>{}...}; };
}
template <class T, std::size_t... I>
consteval auto takes_empty_behind(std::index_sequence<I...>) -> bool {
  return requires { T{AnyValueAt<I>{}..., {}}; };
}
template <class T, std::size_t... I>
consteval auto takes_union_behind(std::index_sequence<I...>) -> bool {
  return requires { T{AnyValueAt<I>{}..., AnyUnion{}}; };
}
template <class T, std::size_t... before, std::size_t... inside, std::size_t... after>
consteval auto takes_group(std::index_sequence<before...>, std::index_sequence<inside...>,
                           std::index_sequence<after...>) -> bool {
  return requires { T{AnyValueAt<before>{}..., {AnyValueAt<inside>{}...}, AnyValueAt<after>{}...}; };
}

/// How many values make a `T`: members, but each element of a C array for itself.
template <class T, std::size_t count = most_members + 1>
consteval auto count_values() -> std::size_t {
  if constexpr (count == 0 || takes<T>(std::make_index_sequence<count>{})) {
    return count;
  } else {
    return count_values<T, count - 1>();
  }
}

/// Whether the `size` values from `at` on are one C array: it takes them in braces, and then no value more behind it.
template <class T, std::size_t count, std::size_t at, std::size_t size>
consteval auto is_array() -> bool {
  using Before = std::make_index_sequence<at>;
  using Inside = std::make_index_sequence<size>;
  return takes_group<T>(Before{}, Inside{}, std::make_index_sequence<count - at - size>{}) &&
         !takes_group<T>(Before{}, Inside{}, std::make_index_sequence<count - at - size + 1>{});
}

template <class T, std::size_t count, std::size_t at>
consteval auto begins_array_or_union() -> bool {
  return takes_union_behind<T>(std::make_index_sequence<at>{}) || []<std::size_t... I>(std::index_sequence<I...>) {
    return (is_array<T, count, at, I + 2>() || ...);
  }
  (std::make_index_sequence<(count - at > 1 ? count - at - 1 : 0)>{});
}

/// Whether structured bindings take all members of `T` apart, and how many there are is known.
template <class T>
consteval auto has_known_members() -> bool {
  if constexpr (!std::is_aggregate_v<T> || std::is_union_v<T> || std::is_array_v<T>) {
    return false;
  } else {
    constexpr auto count = count_values<T>();
    if constexpr (count > most_members || requires { T{AnyBase<T>{}}; }) {
      return false;
    } else {
      return !takes_empty_behind<T>(std::make_index_sequence<count>{}) &&
             !takes_union_behind<T>(std::make_index_sequence<count>{})&&[]<std::size_t... at>(
                 std::index_sequence<at...>) {
        return !(begins_array_or_union<T, count, at>() || ...);
      }
      (std::make_index_sequence<count>{});
    }
  }
}

/// `function` of the members of `value`. Not of references to them: a member may be a bit field.
template <class T, class F>
requires(has_known_members<T>()) auto apply_to_members(T const& value, F const& function) {
  constexpr auto count = count_values<T>();
  if constexpr (count == 0) {
    return function();
  } else if constexpr (count == 1) {
    auto const& [a] = value;
    return function(a);
  } else if constexpr (count == 2) {
    auto const& [a, b] = value;
    return function(a, b);
  } else if constexpr (count == 3) {
    auto const& [a, b, c] = value;
    return function(a, b, c);
  } else if constexpr (count == 4) {
    auto const& [a, b, c, d] = value;
    return function(a, b, c, d);
  } else if constexpr (count == 5) {
    auto const& [a, b, c, d, e] = value;
    return function(a, b, c, d, e);
  } else if constexpr (count == 6) {
    auto const& [a, b, c, d, e, f] = value;
    return function(a, b, c, d, e, f);
  } else if constexpr (count == 7) {
    auto const& [a, b, c, d, e, f, g] = value;
    return function(a, b, c, d, e, f, g);
  } else if constexpr (count == 8) {
    auto const& [a, b, c, d, e, f, g, h] = value;
    return function(a, b, c, d, e, f, g, h);
  } else if constexpr (count == 9) {
    auto const& [a, b, c, d, e, f, g, h, i] = value;
    return function(a, b, c, d, e, f, g, h, i);
  } else if constexpr (count == 10) {
    auto const& [a, b, c, d, e, f, g, h, i, j] = value;
    return function(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (count == 11) {
    auto const& [a, b, c, d, e, f, g, h, i, j, k] = value;
    return function(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (count == 12) {
    auto const& [a, b, c, d, e, f, g, h, i, j, k, l] = value;
    return function(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (count == 13) {
    auto const& [a, b, c, d, e, f, g, h, i, j, k, l, m] = value;
    return function(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else if constexpr (count == 14) {
    auto const& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = value;
    return function(a, b, c, d, e, f, g, h, i, j, k, l, m, n);
  } else if constexpr (count == 15) {
    auto const& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = value;
    return function(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  } else if constexpr (count == 16) {
    auto const& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = value;
    return function(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
  }
}

template <class T>
auto config_text(T const& value) -> std::string;

/// "'text'".
[[nodiscard]] auto quoted_text(std::string_view text) -> std::string;

/// "{true, 0.1}".
[[nodiscard]] auto joined_texts(std::vector<std::string> const& texts) -> std::string;
/// Of parts whose order is each process's own.
[[nodiscard]] auto joined_sorted_texts(std::vector<std::string> texts) -> std::string;

inline constexpr auto members_text = [](auto const&... members) -> std::string {
  return joined_texts({config_text(members)...});
};

template <class Parts>
auto parts_text(Parts const& parts) -> std::string {
  std::vector<std::string> texts;
  for (auto const& part : parts) texts.push_back(config_text(part));
  if constexpr (requires { typename Parts::hasher; }) {
    return joined_sorted_texts(std::move(texts));
  } else {
    return joined_texts(texts);
  }
}

/// A config's fields as text, "{true, 0.1, 'cpu'}", by which processes compare theirs. "?" stands for what has no text:
/// functions, pointers, arrays of C, classes that hide what they hold or have a base, and structs of more than 16
/// fields. Values that give "?" count as equal.
template <class T>
auto config_text(T const& value) -> std::string {
  if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return fmt::format("{}", value);
  } else if constexpr (std::convertible_to<T const&, std::string_view> && !std::is_pointer_v<T>) {
    return quoted_text(value);
  } else if constexpr (requires {
                         { value.native() } -> std::convertible_to<std::string_view>;
                       }) {  // a path
    return quoted_text(value.native());
  } else if constexpr (requires {
                         { value.count() } -> std::convertible_to<long double>;
                         typename T::period;
                       }) {
    return fmt::format("{}", value.count());  // a duration
  } else if constexpr (requires {
                         { value.has_value() } -> std::same_as<bool>;
                         *value;
                       }) {  // an optional
    return value.has_value() ? config_text(*value) : "unset";
  } else if constexpr (requires {
                         value.begin() != value.end();
                         value.size();
                       }) {
    return parts_text(value);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return std::apply(members_text, value);
  } else if constexpr (has_known_members<T>()) {
    return apply_to_members(value, members_text);
  } else {
    return "?";
  }
}

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/config_text-inl.hpp>
#endif
