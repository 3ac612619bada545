// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <raytrain/core/metrics.hpp>
#include <raytrain/message/detail/json_parser.hpp>
#include <raytrain/message/detail/json_reader.hpp>
#include <raytrain/message/detail/json_writer.hpp>

namespace raytrain {

/// A JSON object on one line. A double is the shortest text that reads back as the same one, and always has a point or
/// an exponent, so that it reads back as a double. NaN and the infinities are the strings "NaN", "Infinity" and
/// "-Infinity"; bytes that are not UTF-8 become U+FFFD.
///
/// Source: proto3's JSON mapping.
[[nodiscard]] auto to_json(Metrics const& metrics) -> std::string;

/// Reads what `to_json` writes: one flat object. The strings "NaN", "Infinity" and "-Infinity" become doubles.
///
/// Errors: `invalid_data`; `what` says in the message what was read, for example a file's path and line.
[[nodiscard]] auto metrics_from_json(std::string_view text, std::string_view what = "metrics") -> Metrics;

/// Any JSON value, as `parse_json` gives it.
using detail::JsonArray;
using detail::JsonMember;
using detail::JsonObject;
using detail::JsonValue;

/// Reads JSON whose names are not known before; they may repeat.
///
/// Errors: `invalid_data`; `what` says in the message what was read.
[[nodiscard]] auto parse_json(std::string_view text, std::string_view what = "JSON") -> JsonValue;

/// A text as JSON has it, in quotes; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] auto json_string(std::string_view text) -> std::string;

/// JSON of several lines, for files that people read, too. `T` is a struct whose `serialize` names its fields with
/// CEREAL_NVP: bool, integers, floating point, std::string, Metrics, enumerations that have `enum_names`, such
/// structs, and std::optional (null), std::vector and std::map<std::string, ...> of these.
///
/// Errors: `invalid_data` for text that is not UTF-8, since it could not be read back.
template <class T>
[[nodiscard]] auto write_json(T const& value) -> std::string {
  detail::JsonWriter writer;
  writer.write(value);
  return std::move(writer).take();
}

/// Reads what `write_json` writes. Every field must be there except optional ones, and no other; their order is free.
///
/// Errors: `invalid_data`, naming the field; `what` says in the message what was read, for example a file's path.
template <class T>
[[nodiscard]] auto read_json(std::string_view text, std::string_view what = "JSON") -> T {
  auto const document = detail::JsonParser{text, what}.parse();
  T value{};
  detail::JsonReader{what}.read(document, value);
  return value;
}

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/json-inl.hpp>
#endif
