// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

#include <raytrain/message/json_cursor.hpp>

namespace raytrain::detail {

struct JsonMember;
struct JsonValue;

using JsonArray = std::vector<JsonValue>;
using JsonObject = std::vector<JsonMember>;  ///< In the order of the text; names may repeat.

/// Any JSON value. A number with a point or an exponent is a double, any other an integer; unsigned only above the
/// range of std::int64_t.
struct JsonValue {
  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, JsonArray, JsonObject> value;

  template <class T>
  [[nodiscard]] auto get_if() const noexcept -> T const* {
    return std::get_if<T>(&value);
  }
};

struct JsonMember {
  std::string name;
  JsonValue value;
};

[[noreturn]] void refuse_json(std::string_view what, std::string happened);

/// Parses one JSON value strictly: UTF-8, no comments, nothing after it, and no number that a double or 64 bits cannot
/// hold.
///
/// Source: RFC 8259. Not RapidJSON, which is what cereal's archive parses with: including it first would decide for the
/// whole program what its assertions do, and its 1.1 has undefined behaviour on some numbers.
class JsonParser {
 public:
  /// `what` is named in errors; both must outlive the parser.
  JsonParser(std::string_view text, std::string_view what) : cursor_{text, what} {}

  [[nodiscard]] auto parse() -> JsonValue;

 private:
  [[nodiscard]] auto value() -> JsonValue;

  [[nodiscard]] auto object() -> JsonObject;

  [[nodiscard]] auto array() -> JsonArray;

  [[nodiscard]] auto number() -> JsonValue;

  template <class T>
  [[nodiscard]] auto converted(std::string_view token) -> T {
    T number{};
    if (std::from_chars(token.data(), token.data() + token.size(), number).ec != std::errc{}) {
      cursor_.refuse("a number is out of range");
    }
    return number;
  }

  JsonCursor cursor_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/detail/json_parser-inl.hpp>
#endif
