// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/child_process.hpp>
#include <raytrain/launch/detail/process_mark.hpp>
#include <raytrain/launch/detail/shell_text.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/launch/rank_start.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/launch/supervised_job.hpp>
#include <raytrain/launch/worker_process.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

/// Where this process's program lies, also when another file has taken its place meanwhile.
RAYTRAIN_INLINE auto this_program() -> std::string const& {
  static auto const path = [] {
    std::error_code error;
    auto text = std::filesystem::read_symlink("/proc/self/exe", error).string();
    constexpr std::string_view gone{" (deleted)"};
    if (text.ends_with(gone)) text.resize(text.size() - gone.size());
    if (!error) return text;
    throw Error{Errc::worker_failed, "starting a job",
                "the system does not say which program this process runs: " + error.message()};
  }();
  return path;
}

/// As Open MPI tells a rank.
RAYTRAIN_INLINE auto ranks_of_host_in(std::string const& environment) -> std::size_t {
  constexpr std::string_view name{"OMPI_COMM_WORLD_LOCAL_SIZE="};
  auto const at = environment.find(name);
  return at == std::string::npos ? 0 : std::strtoul(environment.c_str() + at + name.size(), nullptr, 10);
}

/// What a shell reads to have these variables.
RAYTRAIN_INLINE auto exports_of(std::map<std::string, std::string> const& env) -> std::string {
  std::string text;
  for (auto const& [name, value] : env) text += "export " + name + '=' + shell_word(value) + '\n';
  return text;
}

}  // namespace raytrain::detail

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
                                     .suspended_limit = 2 * detail::WorkerStart::heartbeat_interval},
              ControlServer::Events{
                  .on_message = events_.on_message,
                  .on_lost = [this](Rank rank, ControlServer::LostConnection const& lost) { disconnected(rank, lost); },
                  .on_stranger = events_.on_stranger,
                  .is_suspended = [this](Rank rank) { return is_suspended(rank); },
                  .is_own = events_.is_own,
                  .on_connected = [this](Rank rank, ::pid_t pid) { connected(rank, pid); }}} {
  write_start();
  std::scoped_lock const lock{mutex_};
  command_.emplace(detail::ChildProcess::Options{.command = command(),
                                                 .signal_of_death = SIGUSR1,
                                                 .has_own_group = true,
                                                 .on_exit = [this](detail::ProcessExit const& exit) { exited(exit); }});
  if (options_.survives_losses) start_watch_ = std::jthread{[this](std::stop_token is_over) { watch_start(is_over); }};
}

RAYTRAIN_INLINE SupervisedJob::~SupervisedJob() {
  constexpr std::chrono::seconds limit{5};
  start_watch_ = std::jthread{};
  give_up();
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, limit, [this] { return has_exited_; });
  lock.unlock();
  command_.reset();
  if (!has_ended_in_order_) mark_.kill_all();
}

RAYTRAIN_INLINE void SupervisedJob::StartFile::remove() noexcept {
  if (path.empty()) return;
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  std::filesystem::remove(results(), ignored);
  std::filesystem::remove(env(), ignored);
  path.clear();
}

RAYTRAIN_INLINE void SupervisedJob::write_start() {
  std::string const prefix{".ranks-"};
  std::error_code ignored;
  for (auto const& entry : std::filesystem::directory_iterator{options_.folder, ignored}) {
    // A supervisor that was killed has left it.
    if (entry.path().filename().string().starts_with(prefix)) std::filesystem::remove(entry.path(), ignored);
  }
  start_.path = std::filesystem::absolute(options_.folder / (prefix + RunToken::random().to_hex().substr(0, 8)));
  detail::RankStart start{
      .fit = options_.fit, .token = server_.token().to_hex(), .addresses = server_.addresses(), .results = {}};
  if (options_.fit > 1) {
    start.results = start_.results();
    std::ifstream results{"/proc/self/fd/" + std::to_string(options_.results), std::ios::binary};
    detail::write_privately(start.results, std::string{std::istreambuf_iterator<char>{results}, {}});
  }
  if (!options_.env.empty()) detail::write_privately(start_.env(), detail::exports_of(options_.env));
  start.write(start_.path);
}

RAYTRAIN_INLINE auto SupervisedJob::command() const -> std::vector<std::string> {
  // The system may tell the child of a process that is killed more than once that it is, for each of its threads, and
  // Open MPI's launcher leaves the ranks behind when it is told to end twice. So a shell hands it on once.
  std::vector<std::string> words{"sh", "-c",
                                 "trap 'trap \"\" USR1; kill $!' USR1; trap : TERM INT HUP; \"$@\" &\n"
                                 "while :; do wait $!; status=$?; kill -0 $! 2>/dev/null || break; done; exit $status",
                                 "sh"};
  words.insert(words.end(), options_.command.begin(), options_.command.end());
  // env, since there is no option for a variable that all launchers of jobs know.
  for (auto const& word : {std::string{"-n"}, std::to_string(options_.size.value), std::string{"env"},
                           std::string{detail::RankStart::variable} + '=' + start_.path.string(), mark_.variable()}) {
    words.push_back(word);
  }
  if (!options_.env.empty()) {
    // From a file, since other users of a host may read a command. That a host does not see it, the rank says.
    for (auto const* const word : {"sh", "-c", "[ ! -r \"$0\" ] || . \"$0\"; exec \"$@\""}) words.emplace_back(word);
    words.push_back(start_.env().string());
  }
  words.push_back(detail::this_program());
  auto const arguments = detail::program_arguments();
  if (std::ranges::find(arguments, ":") != arguments.end()) {
    throw Error{Errc::invalid_config, "Launch::mpirun",
                "an argument of this program is ':', by which mpirun would begin the next program of its job",
                "give the program what it needs in another form"};
  }
  words.insert(words.end(), arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  return words;
}

RAYTRAIN_INLINE void SupervisedJob::end() noexcept {
  constexpr std::chrono::milliseconds limit{10'000};
  constexpr std::chrono::milliseconds step{500};
  std::unique_lock lock{mutex_};
  auto const is_there = [this](Process const& it) {
    return it.has_connected && (it.lost.empty() || options_.survives_losses);
  };
  auto const is_whole = !is_killed_ && std::ranges::all_of(processes_, is_there);
  if (std::exchange(is_over_, true) || !is_whole) return;
  lock.unlock();
  server_.close();
  lock.lock();
  auto const stands_still = [](Process const& it) { return it.pid != 0 && detail::is_suspended(it.pid); };
  for (auto waited = step; waited <= limit && !has_exited_; waited += step) {
    changed_.wait_for(lock, step, [this] { return has_exited_; });
    if (std::ranges::any_of(processes_, stands_still)) return;
  }
  has_ended_in_order_ = has_exited_;
}

RAYTRAIN_INLINE void SupervisedJob::give_up() noexcept {
  kill();
  server_.close();
}

RAYTRAIN_INLINE void SupervisedJob::kill() noexcept {
  std::scoped_lock const lock{mutex_};
  is_over_ = true;
  end_processes();
}

RAYTRAIN_INLINE void SupervisedJob::end_processes() noexcept {
  if (std::exchange(is_killed_, true)) return;
  auto knows = false;
  for (auto const& process : processes_) {
    knows = knows || process.is_gone;
    if (!process.handle.is_open()) continue;
    knows = ::syscall(SYS_pidfd_send_signal, process.handle.get(), SIGKILL, nullptr, 0) == 0 || knows;
  }
  // The launcher ends the others, and removes what it has written. Open MPI's crashes if it is told while it does so.
  if ((!knows || options_.survives_losses) && command_) command_->kill(SIGUSR1);
  if (knows) mark_.kill_all();
}

RAYTRAIN_INLINE auto SupervisedJob::is_complete() -> bool {
  std::scoped_lock const lock{mutex_};
  return all_have_come();
}

RAYTRAIN_INLINE auto SupervisedJob::all_have_come() const -> bool {
  return std::ranges::all_of(processes_, &Process::has_connected);
}

RAYTRAIN_INLINE auto SupervisedJob::take_lost() -> std::vector<Lost> {
  std::vector<Lost> lost;
  for (std::uint32_t rank = 0; rank < options_.size.value && !is_over_; ++rank) {
    auto& process = processes_[rank];
    if (process.lost.empty() || std::exchange(process.is_told, true)) continue;
    // One of this host was killed, if it had not ended.
    lost.push_back({Rank{rank}, process.pid, process.lost, process.is_gone || process.handle.is_open()});
  }
  std::ranges::stable_partition(lost, [this](Lost const& it) { return !processes_[it.rank.value].has_connected; });
  return lost;
}

RAYTRAIN_INLINE void SupervisedJob::tell(std::vector<Lost> const& lost) {
  auto can_go_on = true;
  for (auto const& one : lost) can_go_on = events_.on_lost(one) && can_go_on;
  if (can_go_on || !options_.survives_losses) return;
  std::scoped_lock const lock{mutex_};
  end_processes();
}

RAYTRAIN_INLINE void SupervisedJob::watch_start(std::stop_token const& is_over) {
  constexpr std::chrono::milliseconds interval{500};
  std::stop_callback const wake{is_over, [this] {
                                  std::scoped_lock const lock{mutex_};
                                  changed_.notify_all();
                                }};
  auto was_there = false;
  auto was_missing = false;  // the launcher may be about to start it
  std::unique_lock lock{mutex_};
  while (true) {
    changed_.wait_for(lock, interval, [&] { return is_over.stop_requested(); });
    if (is_over.stop_requested() || is_over_ || has_exited_ || all_have_come()) return;
    lock.unlock();
    std::map<::pid_t, std::string> there;
    try {
      there = mark_.first_processes();
    } catch (std::exception const&) {  // without descriptors or memory: another time
      lock.lock();
      continue;
    }
    for (auto const& [process, environment] : there) {
      if (detail::is_suspended(process)) ::kill(process, SIGKILL);
    }
    lock.lock();
    auto const ranks_here = there.empty() ? 1 : detail::ranks_of_host_in(there.begin()->second);
    was_there = was_there || !there.empty();
    auto const is_missing = was_there && there.size() < ranks_here;
    if (is_missing && was_missing && !all_have_come()) return end_processes();
    was_missing = is_missing;
  }
}

RAYTRAIN_INLINE void SupervisedJob::connected(Rank rank, ::pid_t pid) {
  std::unique_lock lock{mutex_};
  auto& process = processes_[rank.value];
  process.has_connected = true;
  if (pid > 0) {
    process.pid = pid;
    process.handle = FileDescriptor{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
  }
  if (!all_have_come()) return;
  start_.remove();  // a supervisor that is killed leaves no secrets behind
  auto const lost = take_lost();
  lock.unlock();
  tell(lost);
}

RAYTRAIN_INLINE auto SupervisedJob::is_suspended(Rank rank) -> bool {
  std::scoped_lock const lock{mutex_};
  auto& process = processes_[rank.value];
  if (process.pid != 0 && detail::is_suspended(process.pid)) process.is_suspended = true;
  return process.is_suspended;
}

RAYTRAIN_INLINE void SupervisedJob::disconnected(Rank rank, ControlServer::LostConnection const& connection) {
  std::unique_lock lock{mutex_};
  auto& process = processes_[rank.value];
  if (is_over_ || !process.lost.empty()) return;
  process.is_gone = connection.is_broken;
  if (process.is_suspended) {
    process.lost = "its process stands still, since a signal (SIGSTOP) has stopped it";
  } else {
    // On this host the end of a connection is that of its process. How it was noticed is a matter of chance, and the
    // same cause is to read the same.
    auto const has_ended = process.is_gone && process.pid != 0;
    process.lost = "its process is lost: " + (has_ended ? "it was killed, crashed or exited" : connection.text);
  }
  // Those that go on without it wait until it is not there.
  if (options_.survives_losses && process.handle.is_open()) {
    ::syscall(SYS_pidfd_send_signal, process.handle.get(), SIGKILL, nullptr, 0);
  }
  if (!all_have_come() && !has_exited_ && !process.is_suspended && !options_.survives_losses) return;
  auto const lost = take_lost();
  lock.unlock();
  tell(lost);
}

RAYTRAIN_INLINE void SupervisedJob::exited(detail::ProcessExit const& exit) {
  std::unique_lock lock{mutex_};
  has_exited_ = true;
  auto const is_missing = exit.status == 127;  // by the shell's convention
  auto const what =
      options_.command.front() + ' ' + exit.text + (is_missing ? ", as where it or this program is not there" : "");
  for (auto& process : processes_) {
    if (!process.lost.empty()) continue;
    process.lost = (process.has_connected ? "its process is lost: " : "its process has not come to fit(): ") + what;
  }
  auto const lost = take_lost();
  changed_.notify_all();
  lock.unlock();
  tell(lost);
}

}  // namespace raytrain
