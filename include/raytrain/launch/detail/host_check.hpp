// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include <raytrain/launch/detail/job_hosts.hpp>

namespace raytrain::detail {

/// Asks hosts whether a job can have processes on them: its launcher is to start `sleep` on each, for a moment: of a
/// process that ends at once the daemon of Open MPI 5 may miss the end where processors are busy, and waits for ever.
/// What a launcher prints when it has lost a host, or cannot reach it, differs between launchers, and may name another
/// host.
class HostCheck {
 public:
  static constexpr std::chrono::seconds limit{10};  ///< A host that takes longer does not answer.
  static constexpr std::size_t at_once = 16;        ///< More hosts are asked one lot after the other.
  /// So many of a lot that have not answered are asked once more, each alone: a launcher of Open MPI 5 was seen to
  /// fail when others began and ended beside it.
  static constexpr int most_asked_again = 4;

  /// Those that answer, in their order; all of them after `cancel`. Errors: `worker_failed`, `io`.
  [[nodiscard]] auto answering(JobHosts const& hosts, std::vector<std::string> const& names)
      -> std::vector<std::string>;

  /// Waits before the hosts are asked again; false after `cancel`.
  [[nodiscard]] auto pause(std::chrono::milliseconds duration) -> bool;

  /// From any thread: nobody waits for an answer any more, now and later.
  void cancel() noexcept;

 private:
  [[nodiscard]] auto answers(JobHosts const& hosts, std::vector<std::string> const& names) -> std::vector<bool>;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_cancelled_ = false;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/host_check-inl.hpp>
#endif
