// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// What both ends of a rabit connection send first. All numbers are 32 bits in the byte order of the hosts.
inline constexpr std::int32_t rabit_magic = 0xff99;

/// How a greeting is written: two numbers and strings by XGBoost 1.7 and 2.0, two strings of JSON from 2.1 on.
enum class RabitForm { numbers, json };

/// What a worker says when it has connected to its tracker.
struct RabitGreeting {
  std::int32_t rank = -1;   ///< -1: it is to be given one.
  std::int32_t world = -1;  ///< -1: it does not know.
  std::string task_id{};    ///< Where JSON is sent, the whole string that holds it.
  std::string command{};    ///< "start", "recover", "print" or "shutdown"; or JSON.
  std::string text{};       ///< What a "print" says.
};

/// Makes a greeting out of the bytes of a connection, without the socket.
///
/// It holds at most one string of `longest_string_bytes`, and says how many bytes it wants before any are read.
class RabitGreetingDecoder {
 public:
  static constexpr std::size_t longest_string_bytes = 4096;

  explicit RabitGreetingDecoder(RabitForm form = RabitForm::numbers) : form_{form} {}

  /// At least 1 until the greeting is complete, then 0. Never more than belong to it.
  [[nodiscard]] auto wanted_bytes() const noexcept -> std::size_t { return wanted_ - part_.size(); }

  [[nodiscard]] auto is_complete() const noexcept -> bool { return wanted_ == 0; }
  /// From then on the worker waits for the magic number itself.
  [[nodiscard]] auto has_magic() const noexcept -> bool { return field_ > Field::magic; }
  [[nodiscard]] auto received_bytes() const noexcept -> std::size_t { return received_bytes_; }
  [[nodiscard]] auto greeting() noexcept -> RabitGreeting& { return greeting_; }

  /// Takes in the next bytes, at most as many as are wanted.
  ///
  /// Errors: `bad_message` for what is no greeting, or for more bytes than are wanted.
  void feed(BytesView bytes) {
    if (bytes.size() > wanted_bytes()) refuse("more bytes than a greeting has");
    received_bytes_ += bytes.size();
    part_.insert(part_.end(), bytes.begin(), bytes.end());
    while (wanted_ > 0 && part_.size() == wanted_) take_part();
  }

 private:
  enum class Field { magic, rank, world, task_size, task, command_size, command, text_size, text, end };

  void take_part() {
    auto const part = std::exchange(part_, {});
    std::string const text{text_of(part)};
    switch (field_) {
      case Field::magic:
        if (number_of(part) != rabit_magic) refuse("something else than rabit's magic number");
        return go_on(form_ == RabitForm::json ? Field::task_size : Field::rank, number_bytes);
      case Field::rank: greeting_.rank = number_of(part); return go_on(Field::world, number_bytes);
      case Field::world: greeting_.world = number_of(part); return go_on(Field::task_size, number_bytes);
      case Field::task_size: return begin_string(Field::task, number_of(part));
      case Field::task: greeting_.task_id = text; return go_on(Field::command_size, number_bytes);
      case Field::command_size: return begin_string(Field::command, number_of(part));
      case Field::command:
        greeting_.command = text;
        return text == "print" ? go_on(Field::text_size, number_bytes) : go_on(Field::end, 0);
      case Field::text_size: return begin_string(Field::text, number_of(part));
      case Field::text: greeting_.text = text; return go_on(Field::end, 0);
      case Field::end: return;
    }
  }

  void begin_string(Field field, std::int32_t size) {
    if (size < 1 || static_cast<std::size_t>(size) > longest_string_bytes) {
      refuse("a string of " + std::to_string(size) + " bytes where 1 to " + std::to_string(longest_string_bytes) +
             " are allowed");
    }
    go_on(field, static_cast<std::size_t>(size));
  }

  void go_on(Field field, std::size_t wanted_bytes) {
    field_ = field;
    wanted_ = wanted_bytes;
  }

  static auto number_of(BytesView bytes) -> std::int32_t {
    std::int32_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  }

  [[noreturn]] static void refuse(std::string const& happened) {
    throw Error{Errc::bad_message, "reading a rabit greeting", happened};
  }

  static constexpr std::size_t number_bytes = sizeof(std::int32_t);

  RabitForm const form_;
  Field field_ = Field::magic;
  std::size_t wanted_ = number_bytes;
  std::size_t received_bytes_ = 0;
  Bytes part_;
  RabitGreeting greeting_;
};

/// Numbers and strings as rabit sends them.
class RabitWriter {
 public:
  auto add(std::int32_t number) -> RabitWriter& {
    std::array<std::byte, sizeof number> raw{};
    std::memcpy(raw.data(), &number, sizeof number);
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
    return *this;
  }

  auto add(std::string_view text) -> RabitWriter& {
    add(static_cast<std::int32_t>(text.size()));
    auto const raw = bytes_of(text);
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
    return *this;
  }

  [[nodiscard]] auto bytes() const noexcept -> Bytes const& { return bytes_; }

 private:
  Bytes bytes_;
};

}  // namespace raytrain::detail
