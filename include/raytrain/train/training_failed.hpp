// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/result.hpp>

namespace raytrain {

/// Thrown by `fit()` when a worker failed: every rank's cause, and what was reached until then.
class TrainingFailed : public Error {
 public:
  TrainingFailed(std::vector<Failed> failures, Result result)
      : Error{Errc::worker_failed, "training '" + result.path.filename().string() + "'", describe(failures),
              result.checkpoints.empty() ? "it has left no checkpoint in " + result.path.string() +
                                               "; TrainingFailed::result() has the reports"
                                         : "start it again to go on from " + result.checkpoints.back().path().string()},
        failures_{std::move(failures)},
        result_{std::move(result)} {}

  /// In the order of their arrival: the first one is the cause.
  [[nodiscard]] auto failures() const noexcept -> std::vector<Failed> const& { return failures_; }
  [[nodiscard]] auto result() const noexcept -> Result const& { return result_; }

  /// "rank 1 on node7: out of range; rank 0 ...". Ranks that failed alike are named together.
  [[nodiscard]] static auto describe(std::vector<Failed> const& failures) -> std::string {
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

 private:
  std::vector<Failed> failures_;
  Result result_;
};

}  // namespace raytrain
