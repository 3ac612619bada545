// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/run_token.hpp>

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

/// What a worker needs to find the others by the tracker of its run; ranks send it to each other as they send objects.
struct XGBoostWorkerArguments {
  std::string host{};  ///< IPv4 address of the tracker.
  std::uint16_t port = 0;
  std::uint32_t world = 0;
  std::string secret{};  ///< Who does not know it is a stranger to the tracker.

  /// By which a worker makes itself known; sorted as texts they are in rank order.
  [[nodiscard]] auto task_id(Rank rank) const -> std::string {
    auto const digits = std::to_string(rank.value);
    return secret + '-' + std::string(longest_rank - std::min(digits.size(), longest_rank), '0') + digits;
  }

  /// The rank in a task id; nothing for one that `task_id` does not give.
  [[nodiscard]] auto rank_of(std::string_view task) const -> std::optional<Rank> {
    for (std::size_t i = secret.size() + 1; i < task.size(); ++i) {
      if (task[i] < '0' || task[i] > '9') return std::nullopt;
    }
    if (task.size() != secret.size() + 1 + longest_rank) return std::nullopt;
    Rank const rank{static_cast<std::uint32_t>(std::stoul(std::string{task.substr(secret.size() + 1)}))};
    if (rank.value >= world || !RunToken::same(bytes_of(task_id(rank)), bytes_of(task))) return std::nullopt;
    return rank;
  }

  template <class Archive>
  void serialize(Archive& archive) {
    archive(host, port, world, secret);
  }

 private:
  static constexpr std::size_t longest_rank = 6;
};

}  // namespace raytrain
