// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  [[nodiscard]] static auto describe(std::vector<Failed> const& failures) -> std::string;

 private:
  std::vector<Failed> failures_;
  Result result_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/training_failed-inl.hpp>
#endif
