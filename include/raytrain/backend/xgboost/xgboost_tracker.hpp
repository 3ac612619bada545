// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xgboost/version_config.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include <raytrain/backend/xgboost/xgboost_tracker_options.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/launch/run_token.hpp>
#if XGBOOST_VER_MAJOR > 2 || (XGBOOST_VER_MAJOR == 2 && XGBOOST_VER_MINOR >= 1)
#include <raytrain/backend/xgboost/detail/library_tracker.hpp>
#else
#include <raytrain/backend/xgboost/detail/rabit_tracker.hpp>
#endif

namespace raytrain {
namespace detail {

#if XGBOOST_VER_MAJOR > 2 || (XGBOOST_VER_MAJOR == 2 && XGBOOST_VER_MINOR >= 1)
using TrackerOfVersion = LibraryTracker;
#else
using TrackerOfVersion = RabitTracker;
#endif

}  // namespace detail

/// The rendezvous of XGBoost's workers: it runs in the controller's process, for one `fit()`.
///
/// Threads: every function from any thread, but the destructor from none of the events.
class XGBoostTracker {
 public:
  using Options = XGBoostTrackerOptions;
  using Events = XGBoostTrackerEvents;

  /// Listens when it returns.
  ///
  /// Errors: `invalid_config`; `io` when it cannot listen at the address; `backend` from XGBoost's own tracker.
  explicit XGBoostTracker(Options options, Events events = {})
      : tracker_{checked(std::move(options)), std::move(events), RunToken::random().to_hex().substr(0, secret_size)} {}

  /// What every worker gives to its `XGBoostCommunicator`.
  [[nodiscard]] auto worker_arguments() const noexcept -> XGBoostWorkerArguments const& { return tracker_.arguments(); }

  /// Why the workers could not be brought together, once that is known; it explains the workers' own errors.
  [[nodiscard]] auto error() const -> std::optional<Error> { return tracker_.error(); }

 private:
  static constexpr std::size_t secret_size = 32;

  static auto checked(Options options) -> Options {
    auto const refuse = [](std::string const& field, std::string const& happened) {
      throw Error{Errc::invalid_config, "XGBoostTracker::Options::" + field, happened};
    };
    if (options.world.value == 0 || options.world.value > 1'000'000) {
      refuse("world", "must be 1 to 1000000 (got " + std::to_string(options.world.value) + ")");
    }
    if (options.max_strangers == 0) refuse("max_strangers", "must be at least 1 (got 0)");
    for (auto const& [field, limit] :
         {std::pair{"start_limit", options.start_limit}, std::pair{"greeting_timeout", options.greeting_timeout}}) {
      if (limit <= std::chrono::milliseconds{0}) {
        refuse(field, "must be positive (got " + std::to_string(limit.count()) + " ms)");
      }
    }
    return options;
  }

  detail::TrackerOfVersion tracker_;
};

}  // namespace raytrain
