// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

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

}  // namespace raytrain::detail
