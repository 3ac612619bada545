// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/backend/lightgbm/detail/lightgbm_library.hpp>
#include <raytrain/backend/lightgbm/lightgbm_call.hpp>

namespace raytrain::detail {

/// Collects LightGBM's warnings instead of printing them, each text once per thread.
class LightGBMLog {
 public:
  /// Keeps the warnings of this thread from here on.
  static void keep() {
    lightgbm_call(lightgbm::LGBM_RegisterLogCallback(&LightGBMLog::add), "LGBM_RegisterLogCallback");
  }

  /// The warnings since the last call.
  [[nodiscard]] static auto take() -> std::vector<std::string> { return std::exchange(log().fresh, {}); }

 private:
  struct Log {
    std::string line;
    std::set<std::string> known;
    std::vector<std::string> fresh;
  };
  static auto log() -> Log& {
    thread_local Log kept;
    return kept;
  }

  /// LightGBM gives a line in pieces: "[LightGBM] [Warning] ", its text, and a line feed.
  static void add(char const* piece) {
    constexpr std::string_view warning = "[LightGBM] [Warning] ";
    auto& [line, known, fresh] = log();
    line += piece;
    if (!line.ends_with('\n')) return;
    auto const complete = std::exchange(line, {});
    if (!complete.starts_with(warning)) return;
    auto text = readable_lightgbm_text(std::string_view{complete}.substr(warning.size()));
    if (text.starts_with("No further splits with positive gain"))
      return;  // of every tree with fewer leaves than allowed
    if (known.insert(text).second) fresh.push_back(std::move(text));
  }
};

/// Whether a warning says that LightGBM ignores a parameter: an unknown one, or a second name of one that is given.
[[nodiscard]] inline auto is_unused_parameter(std::string_view warning) -> bool {
  return warning.starts_with("Unknown parameter") || warning.find(" will be ignored.") != std::string_view::npos;
}

}  // namespace raytrain::detail
