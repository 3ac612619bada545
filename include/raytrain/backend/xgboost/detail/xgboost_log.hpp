// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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
