// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/child_process.hpp>
#include <raytrain/launch/detail/host_check.hpp>
#include <raytrain/launch/detail/job_hosts.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto HostCheck::answering(JobHosts const& hosts, std::vector<std::string> const& names)
    -> std::vector<std::string> {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin < names.size(); begin += at_once) {
    auto const first = names.begin() + static_cast<std::ptrdiff_t>(begin);
    std::vector<std::string> const lot{first,
                                       first + static_cast<std::ptrdiff_t>(std::min(at_once, names.size() - begin))};
    auto answered = answers(hosts, lot);
    auto again = most_asked_again;
    for (std::size_t i = 0; i < lot.size(); ++i) {
      if (!answered[i] && again-- > 0) answered[i] = answers(hosts, {lot[i]}).front();
      if (answered[i]) all.push_back(lot[i]);
    }
  }
  std::scoped_lock const lock{mutex_};
  return is_cancelled_ ? names : all;
}

RAYTRAIN_INLINE auto HostCheck::answers(JobHosts const& hosts, std::vector<std::string> const& names)
    -> std::vector<bool> {
  constexpr std::chrono::seconds time_to_clean_up{1};
  std::size_t ended = 0;
  std::vector<bool> answered(names.size());
  {
    std::scoped_lock const lock{mutex_};
    if (is_cancelled_) return answered;
  }
  std::vector<FileDescriptor> files;
  std::list<ChildProcess> launchers;  // they end before what their threads use
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto command = hosts.command_on({names[i]});
    // What it has to say of a host that is lost is no more than that.
    std::vector<std::string> words{"sh", "-c", "exec \"$@\" >/dev/null 2>&1", "sh"};
    words.insert(words.end(), command.words.begin(), command.words.end());
    words.insert(words.end(), {"-n", "1", "sleep", "0.2"});
    files.push_back(std::move(command.host_file));
    launchers.emplace_back(ChildProcess::Options{.command = std::move(words),
                                                 .signal_of_death = SIGTERM,
                                                 .has_own_group = true,
                                                 .on_exit = [this, i, &ended, &answered](ProcessExit const& exit) {
                                                   std::scoped_lock const lock{mutex_};
                                                   answered[i] = exit.status == 0;
                                                   ++ended;
                                                   changed_.notify_all();
                                                 }});
  }
  std::unique_lock lock{mutex_};
  auto const all_have_ended = [&] { return ended == names.size(); };
  if (changed_.wait_for(lock, limit, [&] { return is_cancelled_ || all_have_ended(); }) && !is_cancelled_) {
    return answered;
  }
  auto const in_time = answered;
  lock.unlock();
  for (auto& launcher : launchers) launcher.kill(SIGTERM);
  lock.lock();
  changed_.wait_for(lock, time_to_clean_up, all_have_ended);
  lock.unlock();
  for (auto& launcher : launchers) launcher.kill();
  launchers.clear();
  return in_time;
}

RAYTRAIN_INLINE auto HostCheck::pause(std::chrono::milliseconds duration) -> bool {
  std::unique_lock lock{mutex_};
  return !changed_.wait_for(lock, duration, [this] { return is_cancelled_; });
}

RAYTRAIN_INLINE void HostCheck::cancel() noexcept {
  std::scoped_lock const lock{mutex_};
  is_cancelled_ = true;
  changed_.notify_all();
}

}  // namespace raytrain::detail
