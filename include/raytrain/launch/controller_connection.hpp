// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <raytrain/launch/control_client.hpp>
#include <raytrain/launch/job.hpp>
#include <raytrain/launch/message_sink.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// The connection of a job's process to the controller, which lives in another one.
///
/// Threads: everything from the thread that calls `fit()`, unless it says otherwise.
class ControllerConnection {
 public:
  /// Called from a thread of the connection's; none comes after `end` has returned.
  struct Events {
    std::function<void(ControllerMessage)> on_message;
    /// Once, if the connection ends before the controller has said how the run ended.
    std::function<void(std::string why)> on_lost;
  };

  /// On another rank than 0, which makes its `RankLeader` meanwhile. Errors: as there.
  ControllerConnection(RankJob& job, Events events);
  /// Errors: as `ControlClient`.
  ControllerConnection(Job& job, ControlClient::Options options, Events events);
  ControllerConnection(ControllerConnection const&) = delete;
  auto operator=(ControllerConnection const&) -> ControllerConnection& = delete;
  ~ControllerConnection() { end(); }

  /// Takes messages to the controller.
  [[nodiscard]] auto sink() noexcept -> MessageSink& { return *client_; }

  /// The last call: ends the connection in order, and tells the controller if the run was not over.
  void end() noexcept;

 private:
  void connect(ControlClient::Options options);
  void take(ControllerMessage message);
  void lose_controller(std::string why);

  Job& job_;
  Events events_;
  std::atomic<std::uint64_t> attempt_ = 1;  ///< That of the controller's last `Begin`.
  std::atomic<bool> is_over_ = false;       ///< The controller has said how the run ended, or is gone: nobody waits.
  std::optional<ControlClient> client_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/controller_connection-inl.hpp>
#endif
