// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/detail/json_parser.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void refuse_json(std::string_view what, std::string happened) {
  throw Error{Errc::invalid_data, "reading " + std::string{what}, std::move(happened)};
}

RAYTRAIN_INLINE auto JsonParser::parse() -> JsonValue {
  auto document = value();
  cursor_.end();
  return document;
}

RAYTRAIN_INLINE auto JsonParser::value() -> JsonValue {
  switch (cursor_.peek()) {
    case '{': return {object()};
    case '[': return {array()};
    case '"': return {std::string{cursor_.text()}};
    case 't': cursor_.word("true"); return {true};
    case 'f': cursor_.word("false"); return {false};
    case 'n': cursor_.word("null"); return {nullptr};
    default: return number();
  }
}

RAYTRAIN_INLINE auto JsonParser::object() -> JsonObject {
  JsonObject members;
  cursor_.object([&](std::string_view text) {
    std::string name{text};
    auto member = value();
    members.push_back({std::move(name), std::move(member)});
  });
  return members;
}

RAYTRAIN_INLINE auto JsonParser::array() -> JsonArray {
  JsonArray elements;
  cursor_.array([&] { elements.push_back(value()); });
  return elements;
}

RAYTRAIN_INLINE auto JsonParser::number() -> JsonValue {
  auto const token = cursor_.number();
  if (token.find_first_of(".eE") != std::string_view::npos) return {converted<double>(token)};
  std::int64_t integer{};
  if (std::from_chars(token.data(), token.data() + token.size(), integer).ec == std::errc{}) return {integer};
  return {converted<std::uint64_t>(token)};
}

}  // namespace raytrain::detail
