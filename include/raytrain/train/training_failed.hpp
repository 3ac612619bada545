// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/error_info.hpp>
#include <raytrain/train/result.hpp>

namespace raytrain {

/// Thrown by `fit()` when a worker failed: every rank's cause, and what was reached until then.
class TrainingFailed : public Error {
 public:
  TrainingFailed(std::vector<ErrorInfo> failures, Result result)
      : Error{Errc::worker_failed, "training '" + result.path.filename().string() + "'", describe(failures),
              result.checkpoints.empty() ? "it has left no checkpoint in " + result.path.string() +
                                               "; TrainingFailed::result() has the reports"
                                         : "start it again to go on from " + result.checkpoints.back().location()},
        failures_{std::move(failures)},
        result_{std::move(result)} {}

  /// In the order of their arrival: the first one is the cause. One without a rank is no worker's: the run's own disk,
  /// a critical callback.
  [[nodiscard]] auto failures() const noexcept -> std::vector<ErrorInfo> const& { return failures_; }
  [[nodiscard]] auto result() const noexcept -> Result const& { return result_; }

  /// "rank 1 on node7: out of range; rank 0 ...". Ranks that failed alike are named together; what is no rank's is
  /// that of "the controller on node7".
  [[nodiscard]] static auto describe(std::vector<ErrorInfo> const& failures) -> std::string;

 private:
  std::vector<ErrorInfo> failures_;
  Result result_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/training_failed-inl.hpp>
#endif
