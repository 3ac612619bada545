// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <cstdio>
#include <string_view>

namespace raytrain::detail {

/// Exit status of a process whose training is not finished; the next start goes on with it (EX_TEMPFAIL of sysexits.h).
inline constexpr int unfinished_exit_code = 75;

/// Whether up to 4 KiB can be written without waiting, now or within 100 ms: a pipe may be full, and nobody read it.
[[nodiscard]] auto takes_writing(int file) noexcept -> bool;

/// Writes what the program has printed, unless that would wait for a reader, or for a thread that does not return and
/// is in the middle of it.
void flush_unless_locked(std::FILE* stream) noexcept;

/// Writes to stderr what nobody else can say, mostly of a process that will end itself. It gives up where a reader
/// keeps it waiting for 100 ms.
void say_last_word(std::string_view text) noexcept;

/// Ends this process, whatever its other threads do: no destructors, no handlers.
[[noreturn]] void end_process() noexcept;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/process_end-inl.hpp>
#endif
