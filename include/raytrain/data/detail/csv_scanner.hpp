// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace raytrain::detail {

/// Cuts text that comes in pieces into the fields of its lines, quoted ones as RFC 4180 has them.
///
/// Threads: one at a time.
class CsvScanner {
 public:
  explicit CsvScanner(char delimiter) : delimiter_{delimiter} {}

  /// Calls `field(text)` at each field's end and `line()` at each line's. Empty lines are none. The first problem in
  /// the text ends it; what comes behind is not looked at.
  template <class Field, class Line>
  void feed(std::string_view piece, Field const& field, Line const& line) {
    for (auto const c : piece) {
      if (problem_) return;
      take(c, field, line);
    }
  }

  /// The text is over, perhaps without an end of its last line.
  template <class Field, class Line>
  void finish(Field const& field, Line const& line) {
    if (state_ == State::quoted) problem_ = fmt::format("line {}: a quoted field does not end", opened_);
    if (problem_ || is_at_line_start()) return;
    end_field(field);
    line();
  }

  /// Line that is being read, from 1.
  [[nodiscard]] auto line_number() const noexcept -> std::uint64_t { return line_number_; }
  [[nodiscard]] auto problem() const noexcept -> std::optional<std::string> const& { return problem_; }

 private:
  enum class State : std::uint8_t { start, plain, quoted, quote_in_quoted };

  [[nodiscard]] auto is_at_line_start() const noexcept -> bool { return !has_fields_ && state_ == State::start; }

  template <class Field, class Line>
  void take(char c, Field const& field, Line const& line) {
    if (state_ == State::quoted) {
      if (c == '"') {
        state_ = State::quote_in_quoted;
      } else {
        if (c == '\n') ++line_number_;
        text_ += c;
      }
    } else if (c == '"' && state_ == State::quote_in_quoted) {
      text_ += c;
      state_ = State::quoted;
    } else if (c == '"' && state_ == State::start) {
      state_ = State::quoted;
      opened_ = line_number_;
    } else if (c == delimiter_) {
      end_field(field);
      has_fields_ = true;
    } else if (c == '\n') {
      if (text_.ends_with('\r') && state_ == State::plain) text_.pop_back();
      auto const empty = !has_fields_ && text_.empty() && state_ != State::quote_in_quoted;
      if (!empty) {
        end_field(field);
        line();
      }
      text_.clear();
      state_ = State::start;
      has_fields_ = false;
      ++line_number_;
    } else if (state_ == State::quote_in_quoted) {
      // The end of a line may have two characters.
      if (c != '\r') problem_ = fmt::format("line {}: '{}' follows the end of a quoted field", line_number_, c);
    } else {
      text_ += c;
      state_ = State::plain;
    }
  }

  template <class Field>
  void end_field(Field const& field) {
    field(std::string_view{text_});
    text_.clear();
    state_ = State::start;
  }

  char delimiter_;
  State state_ = State::start;
  std::string text_;
  bool has_fields_ = false;  ///< Of this line, before the one that is being read.
  std::uint64_t line_number_ = 1;
  std::uint64_t opened_ = 0;
  std::optional<std::string> problem_;
};

}  // namespace raytrain::detail
