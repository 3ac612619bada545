// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <raytrain/core/current_error.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/launch/control_client.hpp>
#include <raytrain/launch/controller_connection.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE ControllerConnection::ControllerConnection(RankJob& job, Events events)
    : job_{job}, events_{std::move(events)} {
  job.fail_together("listening for the ranks of the job");
  auto address = job.broadcast(detail::ControllerAddress{});
  std::optional<ErrorInfo> problem;
  try {
    connect(
        {.addresses = std::move(address.addresses), .token = RunToken::from_hex(address.token), .rank = job_.rank()});
  } catch (...) {
    problem = detail::current_error();
  }
  job.fail_together("connecting to the controller on rank 0", problem);
}

RAYTRAIN_INLINE ControllerConnection::ControllerConnection(Job& job, ControlClient::Options options, Events events)
    : job_{job}, events_{std::move(events)} {
  connect(std::move(options));
}

RAYTRAIN_INLINE void ControllerConnection::connect(ControlClient::Options options) {
  client_.emplace(std::move(options),
                  ControlClient::Events{[this](ControllerMessage message) { take(std::move(message)); },
                                        [this](std::string why) { lose_controller(std::move(why)); }});
}

RAYTRAIN_INLINE void ControllerConnection::end() noexcept {
  if (!is_over_) {
    ErrorInfo error{Errc::worker_failed, {}, "its process has left fit() too early"};
    Failed failed{std::move(error).with_origin(job_.rank(), host_name())};
    failed.process_is_spent = true;
    failed.attempt = Attempt{attempt_.load()};
    (void)sink().send(std::move(failed));
  }
  if (client_) client_->close();
  job_.end();
}

RAYTRAIN_INLINE void ControllerConnection::take(ControllerMessage message) {
  if (auto const* const left = std::get_if<LeftBehind>(&message)) return job_.leave_workers_behind(*left);
  if (auto const* const ended = std::get_if<Ended>(&message)) {
    is_over_ = true;
    if (ended->has_lost_ranks) job_.abandon();  // MPI would wait for them
  }
  if (auto const* const begin = std::get_if<Begin>(&message)) attempt_ = begin->attempt.value;
  events_.on_message(std::move(message));
}

RAYTRAIN_INLINE void ControllerConnection::lose_controller(std::string why) {
  if (is_over_.exchange(true)) return;
  job_.abandon();
  events_.on_lost(std::move(why));
}

}  // namespace raytrain
