// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/process_mark.hpp>
#include <raytrain/launch/run_token.hpp>

namespace raytrain::detail {

constexpr std::string_view mark_name{"RAYTRAIN_STARTED_BY"};

/// Whether a process was started with this mark; of one that has ended, or that is another user's, nobody knows.
RAYTRAIN_INLINE auto has_mark(std::filesystem::path const& process, std::string_view mark) -> bool {
  std::ifstream file{process / "environ", std::ios::binary};
  std::string const environment{std::istreambuf_iterator<char>{file}, {}};
  return environment.find(mark) != std::string::npos;
}

/// Kills those that are not among `killed`, and adds them.
RAYTRAIN_INLINE void kill_marked(std::string_view mark, std::set<std::string>& killed) {
  for (auto const& entry : std::filesystem::directory_iterator{"/proc"}) {
    auto const name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos || killed.contains(name)) continue;
    // A handle first, which names this process whatever becomes of its number.
    FileDescriptor const process{static_cast<int>(::syscall(SYS_pidfd_open, std::stoi(name), 0))};
    if (!process.is_open() || !has_mark(entry.path(), mark)) continue;
    if (::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0) killed.insert(name);
  }
}

RAYTRAIN_INLINE auto ProcessMark::create() -> ProcessMark { return ProcessMark{RunToken::random().to_hex()}; }

RAYTRAIN_INLINE auto ProcessMark::variable() const -> std::string {
  auto const name = std::string{mark_name};
  auto const* const others = std::getenv(name.c_str());
  return name + '=' + (others == nullptr ? "" : others + std::string{','}) + text_;
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
