// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>

namespace raytrain {

/// What a thread of this process does, as far as the system tells: "it computes", "it waits for a lock or another
/// thread". `thread` is the system's number. Empty when there is no such thread.
[[nodiscard]] auto thread_activity(pid_t thread) -> std::string;

/// In which functions a thread of this process is, at most 12, up to a training function: "in a(), called by b()". One
/// that the program does not export (link it with -rdynamic) has the file and the offset there: "survive+0x1f2a", as
/// addr2line takes them. Empty when the thread does not answer within 200 ms. It is asked by SIGURG, whose handler
/// stays, and which ends waits such as `nanosleep` and `poll` early, with EINTR; a program with a handler of its own
/// for that signal is not asked.
[[nodiscard]] auto thread_stack(pid_t thread) -> std::string;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/thread_state-inl.hpp>
#endif
