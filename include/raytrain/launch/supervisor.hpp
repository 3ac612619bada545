// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/detail/remote_workers.hpp>
#include <raytrain/launch/detail/worker_cores.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// What a supervisor is given.
struct SupervisorOptions {
  ScalingConfig scaling{};
  std::vector<SharedSetting> settings{};     ///< That all processes must share.
  std::uint32_t fit = 1;                     ///< Which `fit()` of the program with a supervisor it is, from 1.
  std::map<std::string, std::string> env{};  ///< As `RunConfig::env`.
  int results = -1;                          ///< A file with what the calls of `fit()` before have given.
};

/// Starts the processes of the workers, and others in place of those that are lost; this process has no worker itself.
class Supervisor : public Launcher {
 public:
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return size_; }
  [[nodiscard]] auto range() const noexcept -> WorkerRange override { return range_; }
  void resize(WorldSize size) override { size_ = size; }
  [[nodiscard]] auto replaces_processes() const noexcept -> bool override { return true; }

  void join() noexcept override { workers_.close(); }

  /// The last call: ends the connections in order, and waits for the processes to end.
  virtual void end() noexcept = 0;

 protected:
  explicit Supervisor(SupervisorOptions options)
      : options_{std::move(options)},
        range_{detail::range_on_cores(options_.scaling)},
        size_{range_.wanted},
        workers_{range_.most} {}

  SupervisorOptions options_;
  WorkerRange range_;
  WorldSize size_;
  detail::RemoteWorkers workers_;
};

}  // namespace raytrain
