// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/core/current_error.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/control_server.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/rank_leader.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE RankLeader::RankLeader(RankJob& job) : job_{job}, workers_{job.size()} {
  std::optional<ErrorInfo> problem;
  detail::ControllerAddress address;
  if (size() > WorldSize{1}) {
    try {
      listen();
      address = {server_->token().to_hex(), server_->addresses()};
    } catch (...) {
      problem = detail::current_error();
    }
  }
  job_.fail_together("listening for the ranks of the job", problem);
  (void)job_.broadcast(std::move(address));
  job_.fail_together("connecting to the controller on rank 0");
}

RAYTRAIN_INLINE RankLeader::~RankLeader() {
  job_.join_worker();
  end();
}

RAYTRAIN_INLINE void RankLeader::launch(WorkerLaunch what) {
  auto const again = what.begin.attempt > Attempt{};
  workers_.open(what.queue, what.begin.attempt);
  if (again) {
    // They make the new group together.
    job_.join_worker();
    check_nobody_lost();
    tell_others(what.begin);
    job_.prepare(what.begin);
  }
  link_.emplace(job_.placement(), what.queue, what.begin.attempt);
  // The others must not begin without the worker of this process, for which they would wait.
  job_.start_worker(std::move(what.main), *link_, std::move(what.limits.on_warning));
  if (!again) tell_others(std::move(what.begin));
}

RAYTRAIN_INLINE void RankLeader::tell(ControllerMessage const& message) {
  if (auto const* const returned = std::get_if<RankReturned>(&message)) job_.tell_group(*returned);
  if (link_) link_->deliver(message);
  tell_others(message);
}

RAYTRAIN_INLINE void RankLeader::join() noexcept {
  job_.join_worker();
  workers_.close();
}

RAYTRAIN_INLINE void RankLeader::leave_workers_behind(std::vector<Rank> const& workers,
                                                      std::string const& exit_text) noexcept {
  LeftBehind const left{workers, exit_text};
  tell_others(left);
  job_.leave_workers_behind(left);
  join();
}

RAYTRAIN_INLINE void RankLeader::end() noexcept {
  if (server_) server_->close();
  job_.end();
}

RAYTRAIN_INLINE void RankLeader::listen() {
  auto const& placement = job_.placement();
  ControlServer::Options options{.world = size(), .first_rank = Rank{1}};
  options.port = wanted_port();
  options.interface_address = control_address(placement.local_world_size == size());
  options.unix_socket_too = placement.local_world_size > WorldSize{1};
  server_.emplace(
      std::move(options),
      ControlServer::Events{
          .on_message = [this](Rank rank, WorkerMessage& message) { return workers_.hand_on(rank, message); },
          .on_lost = [this](Rank rank, ControlServer::LostConnection const& lost) { lose_rank(rank, lost.text); },
          .on_stranger = [this](std::string text) { workers_.push(Warning{std::move(text)}); }});
}

RAYTRAIN_INLINE void RankLeader::tell_others(ControllerMessage const& message) {
  if (!server_) return;
  if (auto const* const ended = std::get_if<Ended>(&message); ended != nullptr && has_lost_ranks()) {
    auto without_lost = *ended;
    without_lost.has_lost_ranks = true;
    return server_->tell_all(without_lost);
  }
  server_->tell_all(message);
}

RAYTRAIN_INLINE auto RankLeader::has_lost_ranks() -> bool {
  std::scoped_lock const lock{mutex_};
  return !lost_.empty();
}

RAYTRAIN_INLINE void RankLeader::lose_rank(Rank rank, std::string const& why) {
  job_.abandon();
  auto const text = "process " + std::to_string(job_.process_of(rank).pid) + " is lost: " + why;
  {
    std::scoped_lock const lock{mutex_};
    if (lost_.empty()) lost_ = "rank " + std::to_string(rank.value) + ": " + text;
  }
  if (workers_.has_ended(rank)) return;
  auto failed =
      job_.failure_of(rank, {Errc::worker_failed, {}, text, "mpirun or srun and the log of its host may say more"});
  failed.process_is_spent = true;
  failed.attempt = workers_.attempt();
  workers_.push(std::move(failed));
}

RAYTRAIN_INLINE void RankLeader::check_nobody_lost() {
  std::scoped_lock const lock{mutex_};
  if (lost_.empty()) return;
  throw Error{Errc::worker_failed, "starting the workers again", lost_,
              "the next start goes on from the last checkpoint"};
}

}  // namespace raytrain
