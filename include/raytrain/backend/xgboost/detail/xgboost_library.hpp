// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xgboost/c_api.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// A line of XGBoost's without what only its developers need: "[08:28:27]", "src/learner.cc:83:" and
/// "[loop.cc:101|08:28:27]:" at its beginning.
[[nodiscard]] inline auto without_xgboost_place(std::string_view line) -> std::string_view {
  constexpr std::string_view digits = "0123456789";
  auto const skip_spaces = [&line] { line.remove_prefix(std::min(line.find_first_not_of(' '), line.size())); };
  if (line.starts_with("- ")) line.remove_prefix(2);
  while (true) {
    skip_spaces();
    if (auto const close = line.find(']'); line.starts_with('[') && close != std::string_view::npos) {
      auto const tag = line.substr(1, close - 1);
      auto const clock = tag.size() < 8 ? tag : tag.substr(tag.size() - 8);
      bool const has_clock = clock.size() == 8 && clock[2] == ':' && clock[5] == ':' &&
                             clock.find_first_not_of("0123456789:") == std::string_view::npos;
      if (!has_clock) return line;
      line.remove_prefix(close + 1);
      if (line.starts_with(':')) line.remove_prefix(1);
      continue;
    }
    // A file of its sources, the number of a line, and a colon.
    auto const colon = line.find(':');
    if (colon == std::string_view::npos) return line;
    auto const file = line.substr(0, colon);
    auto const number_end = line.find_first_not_of(digits, colon + 1);
    bool const is_source = file.find(' ') == std::string_view::npos &&
                           (file.ends_with(".cc") || file.ends_with(".h") || file.ends_with(".cu") ||
                            file.ends_with(".cuh") || file.ends_with(".cpp"));
    if (!is_source || number_end == std::string_view::npos || number_end == colon + 1 || line[number_end] != ':') {
      return line;
    }
    line.remove_prefix(number_end + 1);
  }
}

/// XGBoost's text in one line, without places in its sources, times of day and the stack.
///
/// The outermost cause of a chain comes first.
[[nodiscard]] inline auto readable_xgboost_text(std::string_view text) -> std::string {
  std::string readable;
  while (!text.empty()) {
    auto const end = std::min(text.find('\n'), text.size());
    auto const raw = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (raw.starts_with("Stack trace:")) break;
    auto line = without_xgboost_place(raw);
    line = line.substr(0, line.find_last_not_of(" \r") + 1);
    if (line.empty()) continue;
    if (!readable.empty()) {
      if (raw.starts_with("- ")) {
        if (readable.ends_with('.')) readable.pop_back();
        readable += ": ";
      } else {
        readable += ' ';
      }
    }
    readable += line;
  }
  return readable.empty() ? "failed without a message" : readable;
}

/// Passes on what a function of XGBoost's C API has returned; every one of them goes through here.
///
/// Threads: the one that called the function, since its message is that thread's.
/// Errors:  `backend` with what XGBoost says of it.
inline void xgboost_call(int status, std::string_view function, std::string remedy = {}) {
  if (status == 0) return;
  throw Error{Errc::backend, std::string{function}, readable_xgboost_text(XGBGetLastError()), std::move(remedy)};
}

/// What XGBoost warns of by a line of its log, in one line; empty for any other line.
[[nodiscard]] inline auto xgboost_warning(std::string_view line) -> std::string {
  constexpr std::string_view warning = "WARNING: ";
  auto const text = without_xgboost_place(line);
  return text.starts_with(warning) ? readable_xgboost_text(text.substr(warning.size())) : "";
}

/// XGBoost's warnings, which it would print to standard error, of the thread that makes it.
class XGBoostLog {
 public:
  XGBoostLog() { xgboost_call(XGBRegisterLogCallback(&XGBoostLog::keep), "XGBRegisterLogCallback"); }

  /// Those since the last call, each once.
  [[nodiscard]] static auto take() -> std::vector<std::string> { return std::exchange(lines(), {}); }

 private:
  static auto lines() -> std::vector<std::string>& {
    thread_local std::vector<std::string> kept;
    return kept;
  }
  static void keep(char const* line) {
    auto text = xgboost_warning(line);
    auto& kept = lines();
    if (!text.empty() && std::ranges::find(kept, text) == kept.end()) kept.push_back(std::move(text));
  }
};

/// Where a text is in XGBoost's configuration of a model.
struct ConfiguredField {
  std::string_view object;
  std::string_view name;
};

/// A text in XGBoost's configuration of a model: of "learner_model_param":{"num_class":"3"} and `"num_class"` it is 3.
/// Empty where there is none.
[[nodiscard]] inline auto configured_text(std::string_view configuration, ConfiguredField field) -> std::string {
  auto const inside = configuration.find('"' + std::string{field.object} + "\":{");
  auto const key = '"' + std::string{field.name} + "\":\"";
  auto const at = inside == std::string_view::npos ? inside : configuration.find(key, inside);
  if (at == std::string_view::npos) return "";
  auto const text = configuration.substr(at + key.size());
  return std::string{text.substr(0, text.find('"'))};
}

/// The names in `Parameters: { "eata", "x" } are not used.`; none in any other line.
[[nodiscard]] inline auto unused_parameters(std::string_view line) -> std::vector<std::string> {
  constexpr std::string_view begin = "Parameters: {";
  auto const first = line.find(begin);
  auto const last = line.find('}', first == std::string_view::npos ? 0 : first);
  std::vector<std::string> names;
  if (first == std::string_view::npos || last == std::string_view::npos ||
      line.find("not ", last) == std::string_view::npos) {
    return names;
  }
  line = line.substr(first + begin.size(), last - first - begin.size());
  for (auto open = line.find('"'); open != std::string_view::npos; open = line.find('"')) {
    auto const close = std::min(line.find('"', open + 1), line.size() - 1);
    names.emplace_back(line.substr(open + 1, close - open - 1));
    line.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace raytrain::detail
