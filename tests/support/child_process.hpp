// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>
#include <string>

#include <doctest/doctest.h>

/// What a child process said before it ended, and how it ended.
struct ChildOutcome {
  std::string text;
  int exit_code{};  ///< -1: killed by a signal.
};

/// Runs `body` in a child process; what it returns, or the message of what it throws, is the child's text.
template <class Body>
[[nodiscard]] auto in_child(Body body) -> ChildOutcome {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  std::fflush(nullptr);  // or the child would print what waits in the buffers once more
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::string text;
    try {
      text = body();
    } catch (std::exception const& error) {
      text = error.what();
    }
    auto const written = ::write(pipe[1], text.data(), text.size());
    ::_exit(written == static_cast<::ssize_t>(text.size()) ? 0 : 1);
  }
  ::close(pipe[1]);
  ChildOutcome outcome;
  std::array<char, 4096> buffer{};
  for (auto count = ::read(pipe[0], buffer.data(), buffer.size()); count > 0;
       count = ::read(pipe[0], buffer.data(), buffer.size())) {
    outcome.text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  ::close(pipe[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}
