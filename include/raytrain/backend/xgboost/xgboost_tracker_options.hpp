// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain {

/// Where an `XGBoostTracker` listens, and for how long it waits.
struct XGBoostTrackerOptions {
  WorldSize world{1};                              ///< How many workers come; 1 to 1,000,000.
  std::string address = "127.0.0.1";               ///< IPv4 address to listen on, by which all workers reach this host.
  std::chrono::milliseconds start_limit{300'000};  ///< In which all workers have come and are connected.
  std::chrono::milliseconds greeting_timeout{5000};  ///< Who has not said who it is by then is a stranger.
  std::size_t max_strangers = 64;                    ///< Connections that have not said who they are; at least 1.
};

/// They must neither wait nor throw. None comes after the tracker's destructor has returned.
///
/// Threads: the tracker's own.
struct XGBoostTrackerEvents {
  /// Once, when the workers cannot be brought together; their own errors do not say why.
  std::function<void(Error const&)> on_error{};
  /// Somebody connected who is no worker of this run, or one that must not come: a text for each of the first.
  std::function<void(std::string)> on_stranger{};
  /// What a worker has the tracker print.
  std::function<void(std::string)> on_print{};
};

}  // namespace raytrain
