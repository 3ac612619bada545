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
#include <raytrain/core/utf8.hpp>
#include <raytrain/message/detail/json_parser.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void refuse_json(std::string_view what, std::string happened) {
  throw Error{Errc::invalid_data, "reading " + std::string{what}, std::move(happened)};
}

RAYTRAIN_INLINE auto JsonParser::parse() -> JsonValue {
  auto document = value(0);
  skip_space();
  if (place_ != text_.size()) refuse("something follows its end");
  return document;
}

RAYTRAIN_INLINE auto JsonParser::value(int depth) -> JsonValue {
  if (depth > max_depth) refuse("it is nested too deeply");
  skip_space();
  switch (peek()) {
    case '{': return {object(depth)};
    case '[': return {array(depth)};
    case '"': return {string()};
    case 't': return {literal("true", true)};
    case 'f': return {literal("false", false)};
    case 'n': return {literal("null", nullptr)};
    default: return number();
  }
}

RAYTRAIN_INLINE auto JsonParser::object(int depth) -> JsonObject {
  JsonObject members;
  ++place_;
  if (skip_space(); take('}')) return members;
  do {
    skip_space();
    if (peek() != '"') refuse("a name in quotes is missing");
    auto name = string();
    if (skip_space(); !take(':')) refuse("a colon is missing");
    auto member = value(depth + 1);
    members.push_back({std::move(name), std::move(member)});
    skip_space();
  } while (take(','));
  if (!take('}')) refuse("a comma or } is missing");
  return members;
}

RAYTRAIN_INLINE auto JsonParser::array(int depth) -> JsonArray {
  JsonArray elements;
  ++place_;
  if (skip_space(); take(']')) return elements;
  do {
    elements.push_back(value(depth + 1));
    skip_space();
  } while (take(','));
  if (!take(']')) refuse("a comma or ] is missing");
  return elements;
}

RAYTRAIN_INLINE auto JsonParser::number() -> JsonValue {
  auto const start = place_;
  take('-');
  if (!take('0') && !digits()) refuse("a value is missing");
  auto const is_whole = peek() != '.' && peek() != 'e' && peek() != 'E';
  if (take('.') && !digits()) refuse("a digit is missing after the point");
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    if (!digits()) refuse("a digit is missing in the exponent");
  }
  auto const token = text_.substr(start, place_ - start);
  if (!is_whole) return {converted<double>(token)};
  std::int64_t integer{};
  if (std::from_chars(token.data(), token.data() + token.size(), integer).ec == std::errc{}) return {integer};
  return {converted<std::uint64_t>(token)};
}

RAYTRAIN_INLINE auto JsonParser::string() -> std::string {
  std::string result;
  ++place_;
  while (!take('"')) {
    auto const length = utf8_sequence_length(text_.substr(place_));
    if (place_ == text_.size()) refuse("a closing quote is missing");
    if (length == 0) refuse("a byte is not UTF-8");
    if (static_cast<unsigned char>(peek()) < 0x20U) refuse("a control character is not escaped");
    if (take('\\')) {
      append_escape(result);
    } else {
      result += text_.substr(place_, length);
      place_ += length;
    }
  }
  return result;
}

RAYTRAIN_INLINE void JsonParser::append_escape(std::string& result) {
  static constexpr std::string_view letters = "\"\\/bfnrt";
  static constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
  if (auto const letter = letters.find(peek()); letter != std::string_view::npos) {
    ++place_;
    result += meanings[letter];
  } else if (take('u')) {
    append_code_point(result);
  } else {
    refuse("an escape is unknown");
  }
}

RAYTRAIN_INLINE void JsonParser::append_code_point(std::string& result) {
  auto code = four_digits();
  if (code >= 0xD800U && code <= 0xDBFFU && take('\\') && take('u')) {
    auto const low = four_digits();
    if (low < 0xDC00U || low > 0xDFFFU) refuse("half a surrogate pair is missing");
    code = 0x10000U + ((code - 0xD800U) << 10U) + (low - 0xDC00U);
  }
  if (code >= 0xD800U && code <= 0xDFFFU) refuse("half a surrogate pair is missing");
  append_utf8(result, code);
}

RAYTRAIN_INLINE auto JsonParser::four_digits() -> std::uint32_t {
  auto const digits = text_.substr(place_, 4);
  std::uint32_t code{};
  auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (error != std::errc{} || end != digits.data() + 4) refuse("\\u needs four hexadecimal digits");
  place_ += 4;
  return code;
}

RAYTRAIN_INLINE auto JsonParser::digits() -> bool {
  auto const start = place_;
  while (peek() >= '0' && peek() <= '9') ++place_;
  return place_ != start;
}

RAYTRAIN_INLINE void JsonParser::skip_space() {
  while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++place_;
}

RAYTRAIN_INLINE auto JsonParser::take(char expected) noexcept -> bool {
  if (place_ == text_.size() || text_[place_] != expected) return false;
  ++place_;
  return true;
}

RAYTRAIN_INLINE void JsonParser::refuse(std::string const& problem) const {
  refuse_json(what_, "is not JSON: " + problem + " (at byte " + std::to_string(place_) + ")");
}

}  // namespace raytrain::detail
