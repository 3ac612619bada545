// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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
  // The system may tell the child of a process that is killed more than once that it is, for each of its threads, and
  // Open MPI's launcher leaves the ranks behind when it is told twice. So a shell hands it on once.
  std::vector<std::string> words{"sh", "-c",
                                 "trap 'trap \"\" TERM; told=1; kill $!' TERM; \"$@\" & wait $!; status=$?\n"
                                 "[ -z \"$told\" ] || { wait $!; status=$?; }; exit $status",
                                 "sh"};
  words.insert(words.end(), options_.command.begin(), options_.command.end());
  std::error_code error;
  auto const program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    throw Error{Errc::worker_failed, "starting " + options_.command.front(),
                "the system does not say which program this process runs: " + error.message()};
  }
  // env, since there is no option for a variable that all launchers of jobs know.
  for (auto const& word :
       {std::string{"-n"}, std::to_string(options_.size.value), std::string{"env"},
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
  std::unique_lock lock{mutex_};
  auto const is_whole =
      std::ranges::all_of(processes_, [](auto const& it) { return it.has_connected && it.lost.empty(); });
  if (std::exchange(is_over_, true) || !is_whole) return;
  lock.unlock();
  server_.close();
  lock.lock();
  changed_.wait_for(lock, limit, [this] { return has_exited_; });
}

RAYTRAIN_INLINE void SupervisedJob::give_up() noexcept {
  std::scoped_lock const lock{mutex_};
  is_over_ = true;
  if (std::exchange(is_killed_, true)) return;
  auto knows = false;
  for (auto const& process : processes_) {
    if (!process.lost.empty()) knows = true;
    if (!process.handle.is_open()) continue;
    knows = ::syscall(SYS_pidfd_send_signal, process.handle.get(), SIGKILL, nullptr, 0) == 0 || knows;
  }
  // The launcher ends the others, and removes what it has written. Open MPI's crashes if it is told while it does so.
  if (!knows && command_) command_->kill(SIGTERM);
}

RAYTRAIN_INLINE auto SupervisedJob::is_complete() -> bool {
  std::scoped_lock const lock{mutex_};
  return all_have_come();
}

RAYTRAIN_INLINE auto SupervisedJob::all_have_come() const -> bool {
  return std::ranges::all_of(processes_, &Process::has_connected);
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
  std::unique_lock lock{mutex_};
  auto& process = processes_[rank.value];
  if (is_over_ || !process.lost.empty()) return;
  process.lost = process.is_stopped ? "its process stands still, since a signal (SIGSTOP) has stopped it"
                                    : "its process is lost: " + why;
  auto const text = process.lost;
  auto const pid = process.pid;
  auto const waits = !all_have_come() && !has_exited_ && !process.is_stopped;
  lock.unlock();
  if (!waits) events_.on_lost(rank, pid, text);
}

RAYTRAIN_INLINE void SupervisedJob::exited(std::string const& how) {
  struct Lost {
    Rank rank;
    ::pid_t pid;
    std::string why;
  };
  std::vector<Lost> lost;
  {
    std::scoped_lock const lock{mutex_};
    has_exited_ = true;
    auto const were_told = all_have_come();
    auto const is_missing = how.ends_with(" 127");  // by the shell's convention
    auto const what = options_.command.front() + ' ' + how + (is_missing ? ", as where there is no such program" : "");
    for (std::uint32_t rank = 0; rank < options_.size.value && !is_over_; ++rank) {
      auto& process = processes_[rank];
      if (!process.lost.empty() && were_told) continue;
      if (!process.has_connected) process.lost = "its process has not come to fit(): " + what;
      if (process.lost.empty()) process.lost = "its process is lost: " + what;
      lost.push_back({Rank{rank}, process.pid, process.lost});
    }
  }
  changed_.notify_all();
  std::ranges::stable_partition(lost, [](Lost const& it) { return it.pid == 0; });
  for (auto const& [rank, pid, why] : lost) events_.on_lost(rank, pid, why);
}

}  // namespace raytrain
