// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/launch/control_server.hpp>
#include <raytrain/launch/detail/child_process.hpp>
#include <raytrain/launch/detail/process_mark.hpp>
#include <raytrain/launch/detail/process_world.hpp>
#include <raytrain/launch/detail/rank_variables.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/process_launcher.hpp>
#include <raytrain/launch/worker_process.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE ProcessLauncher::ProcessLauncher(SupervisorOptions options)
    : Supervisor{std::move(options)},
      processes_(range_.most.value),
      server_{ControlServer::Options{.world = range_.most,
                                     .listens = false,
                                     .heartbeat_interval = detail::WorkerStart::heartbeat_interval,
                                     .suspended_limit = 2 * detail::WorkerStart::heartbeat_interval},
              ControlServer::Events{
                  .on_message = [this](Rank rank, WorkerMessage& message) { return take(rank, message); },
                  .on_lost = [this](Rank rank, ControlServer::LostConnection const& lost) { disconnected(rank, lost); },
                  .on_stranger = {},
                  .is_suspended = [this](Rank rank) { return is_suspended(rank); },
                  .on_goodbye = [this](Rank rank) { said_goodbye(rank); }}} {}

RAYTRAIN_INLINE ProcessLauncher::~ProcessLauncher() {
  workers_.close();
  // Outside of the lock, since each waits for the end of `exited`.
  std::vector<std::unique_ptr<detail::ChildProcess>> children;
  std::unique_lock lock{mutex_};
  for (auto& process : processes_) children.push_back(std::move(process.child));
  lock.unlock();
  for (auto const& child : children) {
    if (child != nullptr) child->kill();  // together, as they are waited for
  }
}

RAYTRAIN_INLINE auto ProcessLauncher::keeps_process_of(Rank rank) -> bool {
  std::scoped_lock const lock{mutex_};
  auto const& process = processes_[rank.value];
  return goes_on(process) && !process.is_preempted;
}

RAYTRAIN_INLINE void ProcessLauncher::launch(WorkerLaunch what) {
  group_ = detail::make_process_group(size_, what.begin);
  begin_attempt(what);
  try {
    for (std::uint32_t rank = 0; rank < size_.value; ++rank) {
      if (has_no_process(Rank{rank})) start_process(Rank{rank});
    }
  } catch (...) {
    for (std::uint32_t rank = 0; rank < size_.value; ++rank) kill(Rank{rank});
    throw;
  }
  what.begin.settings = options_.settings;
  server_.tell_all(what.begin, size_);
}

RAYTRAIN_INLINE void ProcessLauncher::begin_attempt(WorkerLaunch& what) {
  std::vector<Rank> dismissed;
  {
    // A notice counts in the attempt before, or in this one.
    std::scoped_lock const lock{mutex_};
    workers_.open(what.queue, what.begin.attempt);
    for (std::uint32_t rank = 0; rank < range_.most.value; ++rank) {
      auto& process = processes_[rank];
      if (process.child == nullptr || (rank < size_.value && !process.is_preempted)) continue;
      if (!std::exchange(process.end_is_wanted, true)) dismissed.push_back(Rank{rank});
    }
  }
  for (auto const rank : dismissed) server_.tell(rank, Ended{});
}

RAYTRAIN_INLINE auto ProcessLauncher::take(Rank rank, WorkerMessage& message) -> bool {
  if (auto* const preempted = std::get_if<Preempted>(&message)) {
    std::scoped_lock const lock{mutex_};
    auto& process = processes_[rank.value];
    if (process.end_is_wanted) return true;
    process.is_preempted = true;
    preempted->attempt = workers_.attempt();
  }
  return workers_.hand_on(rank, message);
}

RAYTRAIN_INLINE auto ProcessLauncher::has_no_process(Rank rank) -> bool {
  constexpr std::chrono::seconds time_to_end{2};
  constexpr std::chrono::seconds limit{10};
  std::unique_lock lock{mutex_};
  auto& process = processes_[rank.value];
  if (process.child == nullptr) return true;
  if (goes_on(process)) {
    process.attempt = workers_.attempt();
    return false;
  }
  process.end_is_wanted = true;
  auto const has_ended = [&] { return process.is_disconnected && process.exit.has_value(); };
  // One that was dismissed ends by itself, others were killed.
  if (changed_.wait_for(lock, time_to_end, has_ended)) return true;
  process.child->kill();
  if (changed_.wait_for(lock, limit, has_ended)) return true;
  throw Error{Errc::worker_failed, "starting another process for rank " + std::to_string(rank.value),
              "process " + std::to_string(process.child->pid()) + " does not end, though it was killed",
              "see with ps what it waits for: a file system may not answer"};
}

RAYTRAIN_INLINE void ProcessLauncher::start_process(Rank rank) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error{Errc::worker_failed, "starting the process of rank " + std::to_string(rank.value),
                "socketpair: " + std::error_code{errno, std::generic_category()}.message(),
                "raise the limit on open files (ulimit -n)"};
  }
  FileDescriptor const others{ends[1]};
  server_.adopt(rank, ends[0]);
  detail::WorkerStart const start{.rank = rank,
                                  .size = size_,
                                  .fit = options_.fit,
                                  .supervisor = ::getpid(),
                                  .connection = others.get(),
                                  .results = options_.results,
                                  .token = server_.token().to_hex()};
  auto variables =
      detail::rank_variables({.world_rank = rank, .world_size = size_, .local_rank = rank, .local_world_size = size_});
  variables.push_back(std::string{detail::WorkerStart::variable} + '=' + start.text());
  auto const mark = detail::ProcessMark::create();
  variables.push_back(mark.variable());
  for (auto const& [name, value] : options_.env) variables.push_back(name + '=' + value);
  Process before;  // ends outside of the lock
  {
    std::scoped_lock const lock{mutex_};
    before = std::exchange(processes_[rank.value], {});
    processes_[rank.value].mark = mark;
    processes_[rank.value].is_disconnected = false;
    processes_[rank.value].attempt = workers_.attempt();
  }
  auto child = std::make_unique<detail::ChildProcess>(detail::ChildProcess::Options{
      .variables = std::move(variables),
      .descriptors = {start.connection, start.results},
      .on_exit = [this, rank](detail::ProcessExit exit) { exited(rank, std::move(exit)); }});
  std::scoped_lock const lock{mutex_};
  processes_[rank.value].child = std::move(child);
}

RAYTRAIN_INLINE void ProcessLauncher::kill(Rank rank) noexcept {
  std::scoped_lock const lock{mutex_};
  auto& process = processes_[rank.value];
  process.end_is_wanted = true;
  if (process.child != nullptr) process.child->kill();
}

RAYTRAIN_INLINE void ProcessLauncher::tell(ControllerMessage const& message) {
  server_.tell_all(message, size_);
  auto const* const stop = std::get_if<Stop>(&message);
  if (stop != nullptr && !stop->abort) stop_before_they_start();
}

RAYTRAIN_INLINE void ProcessLauncher::stop_before_they_start() {
  if (group_ == nullptr) return;  // nothing was launched
  for (std::uint32_t rank = 0; rank < size_.value; ++rank) {
    if (workers_.has_started(Rank{rank})) continue;
    kill(Rank{rank});
    group_->abort();  // others may wait for it
    Finished finished{Rank{rank}, true};
    finished.attempt = workers_.attempt();
    workers_.push(std::move(finished));
  }
}

RAYTRAIN_INLINE void ProcessLauncher::leave_workers_behind(std::vector<Rank> const& workers,
                                                           std::string const&) noexcept {
  for (auto const rank : workers) kill(rank);
}

RAYTRAIN_INLINE void ProcessLauncher::end() noexcept {
  constexpr std::chrono::milliseconds limit{10'000};
  constexpr std::chrono::milliseconds step{500};
  {
    std::scoped_lock const lock{mutex_};
    is_ending_ = true;
  }
  server_.close();
  std::unique_lock lock{mutex_};
  auto const all_have_ended = [this] {
    return std::ranges::all_of(processes_, [](Process const& it) { return it.child == nullptr || it.exit; });
  };
  for (auto waited = step; waited <= limit && !changed_.wait_for(lock, step, all_have_ended); waited += step) {
    for (auto const& process : processes_) {
      if (process.child != nullptr && process.child->is_suspended()) process.child->kill();
    }
  }
}

RAYTRAIN_INLINE auto ProcessLauncher::is_suspended(Rank rank) -> bool {
  std::scoped_lock const lock{mutex_};
  auto& process = processes_[rank.value];
  if (process.child == nullptr || !process.child->is_suspended()) return false;
  process.kill_reason = "a signal (SIGSTOP) had stopped it";
  return true;
}

RAYTRAIN_INLINE void ProcessLauncher::disconnected(Rank rank, ControlServer::LostConnection const& lost) {
  std::unique_lock lock{mutex_};
  auto& process = processes_[rank.value];
  process.is_disconnected = true;
  if (process.exit) return tell_of_end(rank, std::move(lock));
  if (process.kill_reason.empty() && !lost.is_broken) process.kill_reason = lost.text;
  // Without it the process can do nothing that counts. One that is ending keeps the status that it has.
  if (process.child != nullptr) process.child->kill();
}

RAYTRAIN_INLINE void ProcessLauncher::said_goodbye(Rank rank) {
  std::unique_lock lock{mutex_};
  auto& process = processes_[rank.value];
  process.is_disconnected = true;
  if (process.exit) tell_of_end(rank, std::move(lock));
}

RAYTRAIN_INLINE void ProcessLauncher::exited(Rank rank, detail::ProcessExit exit) {
  std::unique_lock lock{mutex_};
  auto& process = processes_[rank.value];
  auto const mark = process.mark;
  auto const is_in_order = is_ending_ && exit.status;
  process.exit = std::move(exit);
  if (process.is_disconnected) {
    tell_of_end(rank, std::move(lock));
  } else {
    changed_.notify_all();
    lock.unlock();
  }
  // Last, since it looks at each process of the host.
  if (!is_in_order) mark->kill_all();
}

RAYTRAIN_INLINE void ProcessLauncher::tell_of_end(Rank rank, std::unique_lock<std::mutex> lock) {
  auto const& process = processes_[rank.value];
  auto const is_killed = !process.kill_reason.empty() && process.exit->signal == SIGKILL;
  auto text = "its process " + (is_killed ? "was killed, since " + process.kill_reason : process.exit->text);
  auto const attempt = process.attempt;
  auto const is_missed = attempt == workers_.attempt() && !workers_.has_ended(rank);
  auto const is_told = !process.end_is_wanted;
  auto const is_terminated = process.exit->signal == SIGTERM;
  auto const pid = process.child == nullptr ? 0 : process.child->pid();
  if (is_missed && !workers_.has_started(rank)) text += ", before it had begun to train in this attempt";
  changed_.notify_all();
  lock.unlock();
  if (!is_told) return;
  if (!is_missed) {
    workers_.push(Warning{rank, "rank " + std::to_string(rank.value) + ", which had no more to do: " + text});
    return;
  }
  ErrorInfo error{
      Errc::worker_failed, {}, std::move(text), "what process " + std::to_string(pid) + " has printed may say more"};
  if (is_terminated) workers_.push(Preempted{rank, attempt});  // before it could say so
  Failed failed{std::move(error).with_origin(rank, host_name())};
  failed.process_is_spent = true;
  failed.attempt = attempt;
  workers_.push(std::move(failed));
}

}  // namespace raytrain
