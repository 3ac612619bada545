// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/child_process.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/launch/rank_start.hpp>
#include <raytrain/launch/supervised_job.hpp>
#include <raytrain/launch/worker_process.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE SupervisedJob::SupervisedJob(Options options, Events events)
    : options_{std::move(options)},
      events_{std::move(events)},
      processes_(options_.size.value),
      server_{ControlServer::Options{.world = options_.size,
                                     .interface_address = control_address(false),
                                     .port = wanted_port(),
                                     .unix_socket_too = true,
                                     .heartbeat_interval = detail::WorkerStart::heartbeat_interval,
                                     .stopped_limit = 2 * detail::WorkerStart::heartbeat_interval},
              ControlServer::Events{
                  .on_message = [this](Rank rank, WorkerMessage& message) { return events_.on_message(rank, message); },
                  .on_lost = [this](Rank rank, std::string const& why) { disconnected(rank, why); },
                  .on_stranger = [this](std::string text) { events_.on_stranger(std::move(text)); },
                  .is_stopped = [this](Rank rank) { return is_stopped(rank); },
                  .on_connected = [this](Rank rank, ::pid_t pid) { connected(rank, pid); }}} {
  write_start();
  command_.emplace(detail::ChildProcess::Options{.command = command(),
                                                 .signal_of_death = SIGTERM,
                                                 .has_own_group = true,
                                                 .on_exit = [this](std::string const& how) { exited(how); }});
}

RAYTRAIN_INLINE SupervisedJob::~SupervisedJob() {
  constexpr std::chrono::seconds limit{5};
  give_up();
  server_.close();
  {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, limit, [this] { return has_exited_; });
  }
  command_.reset();
  std::error_code ignored;
  std::filesystem::remove(start_file_, ignored);
  std::filesystem::remove(start_file_.string() + ".results", ignored);
}

RAYTRAIN_INLINE void SupervisedJob::write_start() {
  start_file_ = options_.folder / (".ranks-" + server_.token().to_hex().substr(0, 8));
  detail::RankStart start{
      .fit = options_.fit, .token = server_.token().to_hex(), .addresses = server_.addresses(), .results = {}};
  if (options_.fit > 1) {
    start.results = start_file_.string() + ".results";
    std::ofstream results{start.results, std::ios::binary};
    std::array<char, std::size_t{64} << 10U> room{};
    for (::off_t read = 0;;) {
      auto const count = ::pread(options_.results, room.data(), room.size(), read);
      if (count <= 0) break;
      read += count;
      results.write(room.data(), count);
    }
    if (!results.flush()) throw Error{Errc::io, "writing '" + start.results + "'", "the file system took no more"};
  }
  start.write(start_file_);
}

RAYTRAIN_INLINE auto SupervisedJob::command() const -> std::vector<std::string> {
  auto words = options_.command;
  std::error_code error;
  auto const program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    throw Error{Errc::worker_failed, "starting " + words.front(),
                "the system does not say which program this process runs: " + error.message()};
  }
  // env, since there is no option for a variable that all launchers of jobs know.
  for (auto const& word : {std::string{"-n"}, std::to_string(options_.size.value), std::string{"env"},
                           std::string{detail::RankStart::variable} + '=' + std::filesystem::absolute(start_file_).string(),
                           program.string()}) {
    words.push_back(word);
  }
  auto const arguments = detail::program_arguments();
  words.insert(words.end(), arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  return words;
}

RAYTRAIN_INLINE void SupervisedJob::end() noexcept {
  constexpr std::chrono::seconds limit{10};
  {
    std::scoped_lock const lock{mutex_};
    if (!std::ranges::all_of(processes_, [](Process const& it) { return it.has_connected && !it.is_lost; })) return;
    is_given_up_ = true;
  }
  server_.close();
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, limit, [this] { return has_exited_; });
}

RAYTRAIN_INLINE void SupervisedJob::give_up() noexcept {
  std::scoped_lock const lock{mutex_};
  is_given_up_ = true;
  if (has_exited_) return;
  for (auto const& process : processes_) {
    if (process.handle.is_open()) ::syscall(SYS_pidfd_send_signal, process.handle.get(), SIGKILL, nullptr, 0);
  }
  // It ends the others, and removes what it has written.
  if (command_) command_->kill(SIGTERM);
}

RAYTRAIN_INLINE void SupervisedJob::connected(Rank rank, ::pid_t pid) {
  std::scoped_lock const lock{mutex_};
  auto& process = processes_[rank.value];
  process.has_connected = true;
  if (pid <= 0) return;
  process.pid = pid;
  process.handle = FileDescriptor{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
}

RAYTRAIN_INLINE auto SupervisedJob::is_stopped(Rank rank) -> bool {
  std::scoped_lock const lock{mutex_};
  auto& process = processes_[rank.value];
  if (process.pid != 0 && detail::is_stopped(process.pid)) process.is_stopped = true;
  return process.is_stopped;
}

RAYTRAIN_INLINE void SupervisedJob::disconnected(Rank rank, std::string const& why) {
  std::string text = "its process";
  {
    std::scoped_lock const lock{mutex_};
    auto& process = processes_[rank.value];
    if (is_given_up_ || std::exchange(process.is_lost, true)) return;
    if (process.pid != 0) text += ' ' + std::to_string(process.pid);
    text += process.is_stopped ? " stands still, since a signal (SIGSTOP) has stopped it" : " is lost: " + why;
  }
  events_.on_lost(rank, std::move(text));
}

RAYTRAIN_INLINE void SupervisedJob::exited(std::string const& how) {
  std::vector<Rank> missing;
  {
    std::scoped_lock const lock{mutex_};
    has_exited_ = true;
    for (std::uint32_t rank = 0; rank < options_.size.value; ++rank) {
      auto& process = processes_[rank];
      if (is_given_up_ || process.has_connected || std::exchange(process.is_lost, true)) continue;
      missing.push_back(Rank{rank});
    }
  }
  changed_.notify_all();
  for (auto const rank : missing) {
    events_.on_lost(rank, "its process has not come to fit(): " + options_.command.front() + ' ' + how);
  }
}

}  // namespace raytrain
