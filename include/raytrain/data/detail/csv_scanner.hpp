// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace raytrain::detail {

/// Cuts text that comes in pieces into the fields of its lines, quoted ones as RFC 4180 has them. A line ends with a
/// line feed, a carriage return, or both.
///
/// Threads: one at a time.
class CsvScanner {
 public:
  /// `skip_lines`: at the beginning, whatever they hold.
  explicit CsvScanner(char delimiter, std::size_t skip_lines = 0) : delimiter_{delimiter}, skip_lines_{skip_lines} {}

  /// Of a text that goes on at a line's start.
  [[nodiscard]] static auto from_line(char delimiter, std::uint64_t line_number) -> CsvScanner {
    CsvScanner scanner{delimiter};
    scanner.line_number_ = line_number;
    return scanner;
  }

  /// Calls `field(text)` at each field's end and `line()` at each line's. Empty lines are none. The first problem in
  /// the text ends it; what comes behind is not looked at.
  template <class Field, class Line>
  void feed(std::string_view piece, Field const& field, Line const& line) {
    while (true) {
      take_whole_fields(piece, field, line);
      if (piece.empty() || problem_) break;
      auto const run = piece.substr(0, run_size(piece));
      piece.remove_prefix(run.size());
      if (!run.empty()) take_run(run);
      if (piece.empty()) break;
      take(piece.front(), field, line);
      piece.remove_prefix(1);
    }
    if (!problem_ && text_.size() > most_field_bytes) {
      problem_ = fmt::format("line {}: a field has more than {} bytes",
                             state_ == State::quoted ? opened_ : line_number_, most_field_bytes);
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

  /// Whether the text can be cut here, and what follows be read by another one from this line on.
  [[nodiscard]] auto begins_line() const noexcept -> bool {
    return is_at_line_start() && !follows_return_ && line_number_ > skip_lines_;
  }

  /// Line that is being read, from 1.
  [[nodiscard]] auto line_number() const noexcept -> std::uint64_t { return line_number_; }
  [[nodiscard]] auto problem() const noexcept -> std::optional<std::string> const& { return problem_; }

 private:
  static constexpr std::size_t most_field_bytes = std::size_t{256} << 20U;  ///< So that no quote takes all memory.

  enum class State : std::uint8_t { start, plain, quoted, quote_in_quoted };

  [[nodiscard]] auto is_at_line_start() const noexcept -> bool { return !has_fields_ && state_ == State::start; }

  /// How many characters at the beginning do no more than continue or begin the field.
  [[nodiscard]] auto run_size(std::string_view piece) const noexcept -> std::size_t {
    auto const size_until = [&](auto const& is_end) {
      return static_cast<std::size_t>(std::ranges::find_if(piece, is_end) - piece.begin());
    };
    if (state_ == State::quoted) return size_until([](char c) { return c == '"' || c == '\n'; });
    auto const is_plain = state_ == State::plain || (state_ == State::start && piece.front() != '"');
    return is_plain && line_number_ > skip_lines_ ? plain_size(piece) : 0;
  }

  /// How many characters come before the first that ends a field without quotes.
  ///
  /// Eight at a time, since fields are short and of many lengths, which the processor does not foresee. Only the lowest
  /// byte that is marked is surely zero: on big-endian processors, which want the highest, one at a time.
  /// Source: H. S. Warren, "Hacker's Delight", 2nd edition, section 6-1 (finding a zero byte of a word).
  [[nodiscard]] auto plain_size(std::string_view piece) const noexcept -> std::size_t {
    constexpr std::uint64_t ones = 0x0101010101010101;
    auto const zero_bytes = [](std::uint64_t word) { return (word - ones) & ~word & (ones << 7U); };
    std::size_t at = 0;
    if constexpr (std::endian::native == std::endian::little) {
      for (; at + sizeof(std::uint64_t) <= piece.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t word{};
        std::memcpy(&word, piece.data() + at, sizeof word);
        auto const ends = zero_bytes(word ^ (ones * static_cast<unsigned char>(delimiter_))) |
                          zero_bytes(word ^ (ones * '\n')) | zero_bytes(word ^ (ones * '\r'));
        if (ends != 0) return at + static_cast<std::size_t>(std::countr_zero(ends)) / 8;
      }
    }
    while (at < piece.size() && piece[at] != delimiter_ && piece[at] != '\n' && piece[at] != '\r') ++at;
    return at;
  }

  /// The text of a quoted field at the piece's beginning whose end is in it, on the same line, and no quote.
  [[nodiscard]] auto whole_quoted(std::string_view piece) const noexcept -> std::optional<std::string_view> {
    auto const text = piece.substr(1, piece.find('"', 1) - 1);
    if (text.size() + 2 >= piece.size()) return std::nullopt;
    auto const next = piece[text.size() + 2];
    auto const is_end = next == '\n' || next == '\r' || (next == delimiter_ && next != '"');
    if (!is_end || text.find('\n') != std::string_view::npos) return std::nullopt;
    return text;
  }

  /// The fields at the piece's beginning whose end is in it, and of which nothing but quotes around them is to be left.
  template <class Field, class Line>
  void take_whole_fields(std::string_view& piece, Field const& field, Line const& line) {
    while (state_ == State::start && !follows_return_ && line_number_ > skip_lines_) {
      auto const is_quoted = piece.starts_with('"');
      auto const whole = is_quoted ? whole_quoted(piece) : piece.substr(0, plain_size(piece));
      if (!whole) return;
      auto const text = *whole;
      auto const size = text.size() + (is_quoted ? 2 : 0);
      if (size == piece.size()) return;
      auto const c = piece[size];
      piece.remove_prefix(size + 1);
      if (c == delimiter_) {
        field(text);
        has_fields_ = true;
        continue;
      }
      if (has_fields_ || is_quoted || !text.empty()) {
        field(text);
        line();
      }
      has_fields_ = false;
      ++line_number_;
      follows_return_ = c == '\r';
      if (follows_return_ && piece.starts_with('\n')) {
        piece.remove_prefix(1);
        follows_return_ = false;
      }
    }
  }

  void take_run(std::string_view run) {
    follows_return_ = false;
    if (state_ == State::start) state_ = State::plain;
    text_ += run;
  }

  template <class Field, class Line>
  void take(char c, Field const& field, Line const& line) {
    auto const follows_return = std::exchange(follows_return_, false);
    if (state_ == State::quoted) {
      if (c == '"') {
        state_ = State::quote_in_quoted;
      } else {
        if (c == '\n') ++line_number_;
        text_ += c;
      }
    } else if (c == '\r' || c == '\n') {
      follows_return_ = c == '\r';
      if (c == '\r' || !follows_return) end_line(field, line);
    } else if (line_number_ <= skip_lines_) {
      return;
    } else if (c == '"' && state_ == State::quote_in_quoted) {
      text_ += c;
      state_ = State::quoted;
    } else if (c == '"' && state_ == State::start) {
      state_ = State::quoted;
      opened_ = line_number_;
    } else if (c == delimiter_) {
      end_field(field);
      has_fields_ = true;
    } else if (state_ == State::quote_in_quoted) {
      problem_ = fmt::format("line {}: '{}' follows the end of a quoted field", line_number_, c);
    } else {
      text_ += c;
      state_ = State::plain;
    }
  }

  template <class Field, class Line>
  void end_line(Field const& field, Line const& line) {
    if (!is_at_line_start()) {
      end_field(field);
      line();
    }
    has_fields_ = false;
    ++line_number_;
  }

  template <class Field>
  void end_field(Field const& field) {
    field(std::string_view{text_});
    text_.clear();
    state_ = State::start;
  }

  char delimiter_;
  std::size_t skip_lines_;
  State state_ = State::start;
  std::string text_;  ///< Of the field so far.
  bool follows_return_ = false;
  bool has_fields_ = false;  ///< Whether this line has a field before the one that is being read.
  std::uint64_t line_number_ = 1;
  std::uint64_t opened_ = 0;
  std::optional<std::string> problem_;
};

}  // namespace raytrain::detail
