// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/metrics.hpp>
#include <raytrain/message/detail/json_text.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/message/named_enum.hpp>

namespace raytrain::detail {

void append_json(std::string& out, MetricValue const& value);

/// Writes a struct as JSON of several lines, two spaces a level.
class JsonWriter : public FieldVisitor<JsonWriter> {
 public:
  [[nodiscard]] auto take() && -> std::string { return std::move(out_) + "\n"; }

  template <class T>
  void field(std::string_view name, T const& value) {
    next_line();
    check_text(name);
    append_json_string(out_, name);
    out_ += ": ";
    write(value);
  }

  void write(bool value) { out_ += value ? "true" : "false"; }
  void write(std::integral auto value) { append_json_number(out_, value); }
  /// A float is written as the double that equals it.
  void write(std::floating_point auto value) { append_json_number(out_, static_cast<double>(value)); }
  void write(std::string const& value);
  void write(Metrics const& metrics);
  template <NamedEnum E>
  void write(E value) {
    write(std::string{name_of(value)});
  }
  template <class T>
  void write(std::optional<T> const& value) {
    if (value) {
      write(*value);
    } else {
      out_ += "null";
    }
  }
  template <class T>
  void write(std::vector<T> const& values) {
    nested('[', ']', [&] {
      for (auto const& value : values) {
        next_line();
        write(value);
      }
    });
  }
  template <class T>
  void write(std::map<std::string, T> const& values) {
    nested('{', '}', [&] {
      for (auto const& [name, value] : values) field(name, value);
    });
  }
  /// Of a value that writes itself.
  template <class T>
  requires requires(T const& value, JsonWriter& writer) { value.write_as_json(writer); }
  void write(T const& value) { value.write_as_json(*this); }
  template <HasFields T>
  void write(T const& value) {
    // serialize() is not const because archives also load; this visitor only reads.
    nested('{', '}', [&] { visit_fields(*this, const_cast<T&>(value)); });
  }

 private:
  template <class Body>
  void nested(char open, char close, Body&& body) {
    out_ += open;
    auto const outer_is_empty = std::exchange(empty_, true);
    ++depth_;
    body();
    --depth_;
    if (!empty_) new_line();
    empty_ = outer_is_empty;
    out_ += close;
  }

  void next_line();

  void new_line();

  static void check_text(std::string_view text);

  std::string out_;
  std::size_t depth_ = 0;
  bool empty_ = true;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/detail/json_writer-inl.hpp>
#endif
