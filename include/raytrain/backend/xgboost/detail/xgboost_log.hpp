// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <xgboost/c_api.h>

#include <raytrain/backend/xgboost/xgboost_call.hpp>

namespace raytrain::detail {

/// The lines that XGBoost would print to standard error, of the thread that makes it.
class XGBoostLog {
 public:
  XGBoostLog() { xgboost_call(XGBRegisterLogCallback(&XGBoostLog::keep), "XGBRegisterLogCallback"); }

  [[nodiscard]] static auto take() -> std::vector<std::string> { return std::exchange(lines(), {}); }

 private:
  static auto lines() -> std::vector<std::string>& {
    thread_local std::vector<std::string> kept;
    return kept;
  }
  static void keep(char const* text) { lines().emplace_back(text); }
};

/// The names in `Parameters: { "eata", "x" } are not used.`; empty for any other line.
[[nodiscard]] inline auto unused_parameters(std::string_view line) -> std::string {
  constexpr std::string_view begin = "Parameters: {";
  auto const first = line.find(begin);
  auto const last = line.find('}', first == std::string_view::npos ? 0 : first);
  if (first == std::string_view::npos || last == std::string_view::npos ||
      line.find("not ", last) == std::string_view::npos) {
    return {};
  }
  auto names = line.substr(first + begin.size(), last - first - begin.size());
  while (names.starts_with(' ')) names.remove_prefix(1);
  while (names.ends_with(' ')) names.remove_suffix(1);
  return std::string{names};
}

}  // namespace raytrain::detail
