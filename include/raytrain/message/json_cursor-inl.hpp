// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/message/json_cursor.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto JsonCursor::number() -> std::string_view {
  skip_space();
  auto const start = place_;
  take('-');
  if (!take('0') && !digits()) refuse("a value is missing");
  if (take('.') && !digits()) refuse("a digit is missing after the point");
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    if (!digits()) refuse("a digit is missing in the exponent");
  }
  return text_.substr(start, place_ - start);
}

RAYTRAIN_INLINE auto JsonCursor::text() -> std::string_view {
  if (peek() != '"') refuse("a text in quotes is missing");
  auto const start = ++place_;
  auto const is_plain = [](char c) {  // and ASCII: others are negative
    return static_cast<signed char>(c) >= 0x20 && c != '"' && c != '\\';
  };
  while (is_plain(next())) ++place_;
  if (next() == '"') return text_.substr(start, place_++ - start);
  unescaped_ = text_.substr(start, place_ - start);
  while (!take('"')) {
    auto const length = detail::utf8_sequence_length(text_.substr(place_));
    if (place_ == text_.size()) refuse("a closing quote is missing");
    if (length == 0) refuse("a byte is not UTF-8");
    if (static_cast<unsigned char>(next()) < 0x20U) refuse("a control character is not escaped");
    if (take('\\')) {
      append_escape();
    } else {
      unescaped_ += text_.substr(place_, length);
      place_ += length;
    }
  }
  return unescaped_;
}

RAYTRAIN_INLINE void JsonCursor::word(std::string_view expected) {
  skip_space();
  if (!text_.substr(place_).starts_with(expected)) refuse("a value is missing");
  place_ += expected.size();
}

RAYTRAIN_INLINE void JsonCursor::skip() {
  switch (peek()) {
    case '{': return object([&](std::string_view /*name*/) { skip(); });
    case '[': return array([&] { skip(); });
    case '"': return static_cast<void>(text());
    case 't': return word("true");
    case 'f': return word("false");
    case 'n': return word("null");
    default: return static_cast<void>(number());
  }
}

RAYTRAIN_INLINE void JsonCursor::end() {
  if (skip_space(); place_ != text_.size()) refuse("something follows its end");
}

RAYTRAIN_INLINE void JsonCursor::refuse(std::string const& problem) const {
  throw Error{Errc::invalid_data, "reading " + std::string{what_},
              "is not JSON: " + problem + " (at byte " + std::to_string(place_) + ")"};
}

RAYTRAIN_INLINE void JsonCursor::open(char bracket, char const* kind) {
  if (peek() != bracket) refuse(std::string{kind} + " is missing");
  if (depth_++ > max_depth) refuse("it is nested too deeply");
  ++place_;
}

RAYTRAIN_INLINE void JsonCursor::append_escape() {
  static constexpr std::string_view letters = "\"\\/bfnrt";
  static constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
  if (auto const letter = letters.find(next()); letter != std::string_view::npos) {
    ++place_;
    unescaped_ += meanings[letter];
  } else if (take('u')) {
    append_code_point();
  } else {
    refuse("an escape is unknown");
  }
}

RAYTRAIN_INLINE void JsonCursor::append_code_point() {
  auto code = four_digits();
  if (code >= 0xD800U && code <= 0xDBFFU && take('\\') && take('u')) {
    auto const low = four_digits();
    if (low < 0xDC00U || low > 0xDFFFU) refuse("half a surrogate pair is missing");
    code = 0x10000U + ((code - 0xD800U) << 10U) + (low - 0xDC00U);
  }
  if (code >= 0xD800U && code <= 0xDFFFU) refuse("half a surrogate pair is missing");
  detail::append_utf8(unescaped_, code);
}

RAYTRAIN_INLINE auto JsonCursor::four_digits() -> std::uint32_t {
  auto const digits = text_.substr(place_, 4);
  std::uint32_t code{};
  auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (error != std::errc{} || end != digits.data() + 4) refuse("\\u needs four hexadecimal digits");
  place_ += 4;
  return code;
}

RAYTRAIN_INLINE auto JsonCursor::digits() noexcept -> bool {
  auto const start = place_;
  while (next() >= '0' && next() <= '9') ++place_;
  return place_ != start;
}

RAYTRAIN_INLINE auto JsonCursor::take(char expected) noexcept -> bool {
  if (place_ == text_.size() || text_[place_] != expected) return false;
  ++place_;
  return true;
}

}  // namespace raytrain
