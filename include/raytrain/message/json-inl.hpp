// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/detail/json_parser.hpp>
#include <raytrain/message/detail/json_reader.hpp>
#include <raytrain/message/detail/json_text.hpp>
#include <raytrain/message/detail/json_writer.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto to_json(Metrics const& metrics) -> std::string {
  std::string line = "{";
  for (auto const& [name, value] : metrics) {
    if (line.size() > 1) line += ", ";
    detail::append_json_string(line, name);
    line += ": ";
    detail::append_json(line, value);
  }
  return line + "}";
}

RAYTRAIN_INLINE auto parse_json(std::string_view text, std::string_view what) -> JsonValue {
  return detail::JsonParser{text, what}.parse();
}

RAYTRAIN_INLINE auto json_string(std::string_view text) -> std::string {
  std::string quoted;
  detail::append_json_string(quoted, text);
  return quoted;
}

RAYTRAIN_INLINE auto metrics_from_json(std::string_view text, std::string_view what) -> Metrics {
  auto const document = parse_json(text, what);
  Metrics metrics;
  detail::JsonReader{what}.read(document, metrics);
  return metrics;
}

}  // namespace raytrain
