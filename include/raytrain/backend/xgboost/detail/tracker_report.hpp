// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/backend/xgboost/xgboost_tracker_options.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// Keeps a tracker's error, why it cannot connect the workers, and tells of strangers that have connected to it.
///
/// Threads: the tracker's own; `error` from any.
class TrackerReport {
 public:
  explicit TrackerReport(XGBoostTrackerEvents events) : events_{std::move(events)} {}

  void tell_error(Error const& error) {
    {
      std::lock_guard const lock{mutex_};
      error_ = error;
    }
    if (events_.on_error) events_.on_error(error);
  }

  [[nodiscard]] auto error() const -> std::optional<Error> {
    std::lock_guard const lock{mutex_};
    return error_;
  }

  /// Tells of the first strangers only, since a port scan brings thousands.
  void tell_stranger(std::string text) {
    if (!events_.on_stranger || strangers_ > told_strangers) return;
    if (++strangers_ > told_strangers) text = "there are more, which are not told of";
    events_.on_stranger(std::move(text));
  }

  void tell_print(std::string text) const {
    if (events_.on_print) events_.on_print(std::move(text));
  }

  static constexpr auto attempted = "bringing XGBoost's workers together";

  static auto name_of(std::size_t rank) -> std::string { return "rank " + std::to_string(rank); }

  [[nodiscard]] static auto lost(std::size_t rank, std::string const& why) -> Error {
    return {Errc::worker_failed, attempted, "the connection of " + name_of(rank) + ' ' + why};
  }

  static constexpr auto ended = "ended: its process was killed, crashed or gave up";

  /// Why a connection is lost. Whether a process that goes leaves an end or a reset depends on what it has not read.
  [[nodiscard]] static auto broken(std::error_code error) -> std::string {
    if (error.value() == ECONNRESET || error.value() == EPIPE) return ended;
    return "broke (" + error.message() + ")";
  }

  /// The error when the time limit is over: names workers that are missing.
  [[nodiscard]] static auto lateness(XGBoostTrackerOptions const& options, std::vector<bool> const& here,
                                     XGBoostWorkerArguments const& arguments) -> Error {
    std::string missing;
    std::size_t count = 0;
    for (std::size_t rank = 0; rank < here.size(); ++rank) {
      if (here[rank] || ++count > named_ranks) continue;
      missing += (missing.empty() ? "" : ", ") + name_of(rank);
    }
    if (count > named_ranks) missing += " and " + std::to_string(count - named_ranks) + " more";
    auto const limit = std::to_string(options.start_limit.count()) + " ms";
    if (count == 0) {
      return {Errc::timed_out, attempted, "not all were connected with each other within " + limit,
              "see whether every host may connect to every other one, on any port"};
    }
    return {Errc::timed_out, attempted,
            std::to_string(here.size() - count) + " of " + std::to_string(here.size()) + " came within " + limit +
                "; missing: " + missing,
            "see why they did not start, and whether their hosts may connect to " + arguments.host + " on port " +
                std::to_string(arguments.port)};
  }

 private:
  static constexpr std::size_t named_ranks = 8;
  static constexpr std::size_t told_strangers = 8;

  XGBoostTrackerEvents const events_;
  std::size_t strangers_ = 0;
  mutable std::mutex mutex_;
  std::optional<Error> error_;
};

}  // namespace raytrain::detail
