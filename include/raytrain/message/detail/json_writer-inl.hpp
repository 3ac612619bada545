// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <variant>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/message/detail/json_text.hpp>
#include <raytrain/message/detail/json_writer.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void append_json(std::string& out, MetricValue const& value) {
  std::visit(
      [&]<class T>(T const& v) {
        if constexpr (std::same_as<T, bool>) {
          out += v ? "true" : "false";
        } else if constexpr (std::same_as<T, std::string>) {
          append_json_string(out, v);
        } else {
          append_json_number(out, v);
        }
      },
      value);
}

RAYTRAIN_INLINE void JsonWriter::write(std::string const& value) {
  check_text(value);
  append_json_string(out_, value);
}

RAYTRAIN_INLINE void JsonWriter::write(Metrics const& metrics) {
  nested('{', '}', [&] {
    for (auto const& [name, value] : metrics) {
      next_line();
      append_json_string(out_, name);
      out_ += ": ";
      append_json(out_, value);
    }
  });
}

RAYTRAIN_INLINE void JsonWriter::next_line() {
  if (!empty_) out_ += ',';
  empty_ = false;
  new_line();
}

RAYTRAIN_INLINE void JsonWriter::new_line() {
  out_ += '\n';
  out_.append(2 * depth_, ' ');
}

RAYTRAIN_INLINE void JsonWriter::check_text(std::string_view text) {
  if (is_utf8(text)) return;
  throw Error{Errc::invalid_data, "writing JSON", "'" + to_utf8(text) + "' is not UTF-8",
              "replace the bytes that are not by raytrain::to_utf8, or rename the file"};
}

}  // namespace raytrain::detail
