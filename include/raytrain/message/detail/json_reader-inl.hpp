// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/detail/json_parser.hpp>
#include <raytrain/message/detail/json_reader.hpp>
#include <raytrain/message/detail/json_text.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto special_number(std::string_view text) -> std::optional<double> {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

RAYTRAIN_INLINE void JsonReader::read(JsonValue const& json, Metrics& metrics) {
  auto const& object = expect<JsonObject>(json, "an object");
  if (object.size() > max_metrics) refuse(json, "an object of at most " + std::to_string(max_metrics) + " metrics");
  metrics = {};
  metrics.reserve(object.size());
  for (auto const& member : object) {
    if (metrics.contains(member.name)) refuse_field(member.name, "appears twice");
    within(member.name, [&] { metrics.set(member.name, metric(member.value)); });
  }
}

RAYTRAIN_INLINE auto JsonReader::Fields::take(std::string_view name) -> JsonMember const* {
  auto const member = std::ranges::find(object_, name, &JsonMember::name);
  return member == object_.end() ? nullptr : known_.emplace_back(&*member);
}

RAYTRAIN_INLINE void JsonReader::Fields::refuse_others() const {
  for (auto const& member : object_) {
    if (std::ranges::find(known_, &member) != known_.end()) continue;
    auto const twice = std::ranges::count(object_, member.name, &JsonMember::name) > 1;
    reader_.refuse_field(member.name, twice ? "appears twice" : "is not known");
  }
}

RAYTRAIN_INLINE auto JsonReader::metric(JsonValue const& json) const -> MetricValue {
  if (auto const* const text = json.get_if<std::string>()) {
    if (auto const special = special_number(*text)) return *special;
    return *text;
  }
  if (auto const* const flag = json.get_if<bool>()) return *flag;
  if (auto const* const integer = json.get_if<std::int64_t>()) return *integer;
  return expect<double>(json, "a number of 64 bits, text, true or false");
}

RAYTRAIN_INLINE void JsonReader::refuse(JsonValue const& json, std::string const& expected) const {
  auto const subject = path_.empty() ? "it" : "'" + path_ + "'";
  refuse_json(what_, subject + " must be " + expected + " (got " + shown(json) + ")");
}

RAYTRAIN_INLINE void JsonReader::refuse_field(std::string_view name, std::string_view problem) const {
  refuse_json(what_, "field '" + path_ + (path_.empty() ? "" : ".") + std::string{name} + "' " + std::string{problem});
}

RAYTRAIN_INLINE auto JsonReader::shown(JsonValue const& json) -> std::string {
  return std::visit(
      []<class T>(T const& value) -> std::string {
        if constexpr (std::same_as<T, JsonObject>) {
          return "an object of " + std::to_string(value.size());
        } else if constexpr (std::same_as<T, JsonArray>) {
          return "an array of " + std::to_string(value.size());
        } else if constexpr (std::same_as<T, std::string>) {
          return '"' + value.substr(0, 100) + '"';
        } else if constexpr (std::same_as<T, bool>) {
          return value ? "true" : "false";
        } else if constexpr (std::same_as<T, std::nullptr_t>) {
          return "null";
        } else {
          std::string number;
          append_json_number(number, value);
          return number;
        }
      },
      json.value);
}

}  // namespace raytrain::detail
