// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/process_mark.hpp>
#include <raytrain/launch/run_token.hpp>

namespace raytrain::detail {

constexpr std::string_view mark_name{"RAYTRAIN_STARTED_BY"};

/// Of one that has ended, or that is another user's, nobody knows it: empty then.
RAYTRAIN_INLINE auto environment_of(std::filesystem::path const& process) -> std::string {
  std::ifstream file{process / "environ", std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// Whether a process was started with this mark.
RAYTRAIN_INLINE auto has_mark(std::string const& environment, std::string_view mark) -> bool {
  return environment.find(mark) != std::string::npos;
}

/// The folders of all processes of this host, by their numbers.
RAYTRAIN_INLINE auto process_folders() -> std::map<std::string, std::filesystem::path> {
  std::map<std::string, std::filesystem::path> folders;
  for (auto const& entry : std::filesystem::directory_iterator{"/proc"}) {
    auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos) folders.emplace(std::move(name), entry.path());
  }
  return folders;
}

/// Kills those that are not among `killed`, and adds them.
RAYTRAIN_INLINE void kill_marked(std::string_view mark, std::set<std::string>& killed) {
  for (auto const& [name, folder] : process_folders()) {
    if (killed.contains(name)) continue;
    // A handle first, which names this process whatever becomes of its number.
    FileDescriptor const process{static_cast<int>(::syscall(SYS_pidfd_open, std::stoi(name), 0))};
    if (!process.is_open() || !has_mark(environment_of(folder), mark)) continue;
    if (::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0) killed.insert(name);
  }
}

RAYTRAIN_INLINE auto ProcessMark::create() -> ProcessMark { return ProcessMark{RunToken::random().to_hex()}; }

RAYTRAIN_INLINE auto ProcessMark::variable() const -> std::string {
  auto const name = std::string{mark_name};
  auto const* const others = std::getenv(name.c_str());
  return name + '=' + (others == nullptr ? "" : others + std::string{','}) + text_;
}

RAYTRAIN_INLINE auto ProcessMark::first_processes() const -> std::map<::pid_t, std::string> {
  std::map<::pid_t, std::string> marked;
  std::map<::pid_t, ::pid_t> parents;
  for (auto const& [name, folder] : process_folders()) {
    auto environment = environment_of(folder);
    if (!has_mark(environment, text_)) continue;
    std::ifstream file{folder / "stat"};
    std::string const stat{std::istreambuf_iterator<char>{file}, {}};
    std::istringstream rest{stat.substr(std::min(stat.rfind(')') + 1, stat.size()))};  // a name may have any sign
    char state = 0;
    ::pid_t parent = 0;
    if (!(rest >> state >> parent)) continue;
    parents.emplace(std::stoi(name), parent);
    marked.emplace(std::stoi(name), std::move(environment));
  }
  std::erase_if(marked, [&](auto const& process) { return parents.contains(parents.at(process.first)); });
  return marked;
}

RAYTRAIN_INLINE void ProcessMark::kill_all() const noexcept {
  try {
    // Again, for those that others have started before they were killed.
    std::set<std::string> killed;
    std::size_t before = 0;
    do {
      before = killed.size();
      kill_marked(text_, killed);
    } while (killed.size() != before);
  } catch (std::exception const&) {
    // Without memory, or without /proc, they stay.
  }
}

}  // namespace raytrain::detail
