// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/error_info.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/train/training_failed.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto TrainingFailed::describe(std::vector<ErrorInfo> const& failures) -> std::string {
  struct Cause {
    std::string text;
    std::vector<std::string> who;
  };
  std::vector<Cause> causes;
  for (auto const& error : failures) {
    auto who = error.rank ? "rank " + std::to_string(error.rank->value) : std::string{"the controller"};
    if (!error.host.empty()) who += " on " + error.host;
    auto const what = error.text();
    auto cause = std::ranges::find(causes, what, &Cause::text);
    if (cause == causes.end()) cause = causes.insert(cause, Cause{what, {}});
    if (std::ranges::find(cause->who, who) == cause->who.end()) cause->who.push_back(std::move(who));
  }
  std::string text;
  for (auto const& cause : causes) {
    if (!text.empty()) text += "; ";
    for (auto const& who : cause.who) text += (&who == &cause.who.front() ? "" : ", ") + who;
    text += ": " + cause.text;
  }
  return text;
}

}  // namespace raytrain
