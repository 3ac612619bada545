// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace raytrain {

/// Goes through one JSON text from front to back, strictly: UTF-8, no comments, and nothing that RFC 8259 has not.
///
/// Errors: every function throws `invalid_data`, with what is read and the byte, where something else comes.
/// Source: RFC 8259.
class JsonCursor {
 public:
  /// `what` is named in errors; both must outlive the cursor.
  JsonCursor(std::string_view text, std::string_view what) noexcept : text_{text}, what_{what} {}

  /// The first character of the value that comes next; a zero, which begins none, at the end of the text.
  [[nodiscard]] auto peek() noexcept -> char {
    skip_space();
    return next();
  }

  /// Calls `member(name)` for each member, which must read its value. The name lives until the next text is read.
  template <class Member>
  void object(Member const& member) {
    open('{', "an object");
    if (peek() == '}') return close();
    while (true) {
      if (peek() != '"') refuse("a name in quotes is missing");
      auto const name = text();
      if (peek() != ':') refuse("a colon is missing");
      ++place_;
      member(name);
      if (peek() != ',') break;
      ++place_;
    }
    if (next() != '}') refuse("a comma or } is missing");
    close();
  }

  /// Calls `element()` for each element, which must read it.
  template <class Element>
  void array(Element const& element) {
    open('[', "an array");
    if (peek() == ']') return close();
    while (true) {
      element();
      if (peek() != ',') break;
      ++place_;
    }
    if (next() != ']') refuse("a comma or ] is missing");
    close();
  }

  /// The number's text, which may be that of one that no type can hold.
  [[nodiscard]] auto number() -> std::string_view;

  /// A text without its quotes and escapes. It lives until the next one is read.
  [[nodiscard]] auto text() -> std::string_view;

  /// Reads a word: true, false or null.
  void word(std::string_view expected);

  /// Reads a value of any kind.
  void skip();

  /// Nothing but blanks may come.
  void end();

  /// What is read.
  [[nodiscard]] auto what() const noexcept -> std::string_view { return what_; }

  [[noreturn]] void refuse(std::string const& problem) const;

 private:
  static constexpr int max_depth = 64;  ///< Far more than raytrain's files need; protects the stack.

  void open(char bracket, char const* kind);

  void close() noexcept {
    ++place_;
    --depth_;
  }

  void append_escape();

  void append_code_point();

  [[nodiscard]] auto four_digits() -> std::uint32_t;

  [[nodiscard]] auto digits() noexcept -> bool;

  void skip_space() noexcept {
    while (next() == ' ' || next() == '\t' || next() == '\n' || next() == '\r') ++place_;
  }

  [[nodiscard]] auto next() const noexcept -> char { return place_ < text_.size() ? text_[place_] : '\0'; }

  auto take(char expected) noexcept -> bool;

  std::string_view text_;
  std::string_view what_;
  std::size_t place_ = 0;
  int depth_ = 0;
  std::string unescaped_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/json_cursor-inl.hpp>
#endif
