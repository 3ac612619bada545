// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <utility>

namespace raytrain::detail {

/// A variable in the environment of a worker's process, by which all that the process has started is found, also after
/// its end, when nothing else leads from it to them: not the parent, the process group or the session.
///
/// A program that is started without the variable `RAYTRAIN_STARTED_BY` does not have the mark.
class ProcessMark {
 public:
  /// One that no process has yet. Errors: `io` when the operating system has no random bytes.
  [[nodiscard]] static auto create() -> ProcessMark;

  /// As NAME=VALUE. The value has the marks of this process, too.
  [[nodiscard]] auto variable() const -> std::string;

  /// The processes of this host that have the mark and were started by one without it, with their environments:
  /// NAME=VALUE, each with a null at its end.
  ///
  /// Threads: any.
  /// Cost:    reads two files of each process of the host.
  [[nodiscard]] auto first_processes() const -> std::map<::pid_t, std::string>;

  /// Kills all processes of this host that have the mark and that this user may kill.
  ///
  /// Threads: any.
  /// Cost:    reads a file of each process of the host.
  void kill_all() const noexcept;

 private:
  explicit ProcessMark(std::string text) : text_{std::move(text)} {}

  std::string text_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/process_mark-inl.hpp>
#endif
