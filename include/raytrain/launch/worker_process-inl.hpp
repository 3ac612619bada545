// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>

#include <raytrain/core/inline.hpp>
#include <raytrain/launch/rank_start.hpp>
#include <raytrain/launch/worker_process.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto WorkerStart::text() const -> std::string {
  std::ostringstream out;
  out << rank.value << ' ' << size.value << ' ' << fit << ' ' << supervisor << ' ' << connection << ' ' << results
      << ' ' << token;
  return out.str();
}

RAYTRAIN_INLINE auto WorkerStart::parse(std::string const& text) -> std::optional<WorkerStart> {
  WorkerStart start;
  std::istringstream in{text};
  in >> start.rank.value >> start.size.value >> start.fit >> start.supervisor >> start.connection >> start.results >>
      start.token;
  if (!in || start.rank.value >= start.size.value || start.connection < 0) return std::nullopt;
  return start;
}

/// Of another process than the one that is told, the variable means nothing.
RAYTRAIN_INLINE auto take_worker_start() -> std::optional<WorkerStart> {
  auto const* const text = std::getenv(WorkerStart::variable);
  if (text == nullptr) return std::nullopt;
  auto start = WorkerStart::parse(text);
  ::unsetenv(WorkerStart::variable);
  if (!start || start->supervisor != ::getppid()) return std::nullopt;
  for (auto const file : {start->connection, start->results}) ::fcntl(file, F_SETFD, FD_CLOEXEC);
  ::prctl(PR_SET_NAME, program_invocation_short_name);  // the system calls it "exe", by what was executed
  return start;
}

RAYTRAIN_INLINE auto worker_start() -> std::optional<WorkerStart> const& {
  static auto const start = take_worker_start();
  return start;
}

// Before main, which may start programs and threads.
[[maybe_unused]] inline bool const worker_start_is_taken = worker_start().has_value();

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto is_worker_process() noexcept -> bool {
  return detail::worker_start().has_value() || detail::rank_start_file().has_value();
}

}  // namespace raytrain
