// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/training_failed.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto TrainingFailed::describe(std::vector<Failed> const& failures) -> std::string {
  struct Cause {
    std::string text;
    std::vector<std::string> who;
  };
  std::vector<Cause> causes;
  for (auto const& failed : failures) {
    auto who = "rank " + std::to_string(failed.rank.value);
    if (!failed.hostname.empty()) who += " on " + failed.hostname;
    auto cause = std::ranges::find(causes, failed.text, &Cause::text);
    if (cause == causes.end()) cause = causes.insert(cause, Cause{failed.text, {}});
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
