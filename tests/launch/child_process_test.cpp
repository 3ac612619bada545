// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/detail/child_process.hpp>

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

using raytrain::detail::ChildProcess;
using raytrain::detail::ProcessExit;

namespace {

auto exit_of(std::string script) -> ProcessExit {
  std::promise<ProcessExit> ended;
  ChildProcess const child{{.command = {"sh", "-c", std::move(script)},
                            .on_exit = [&](ProcessExit exit) { ended.set_value(std::move(exit)); }}};
  return ended.get_future().get();
}

// This program again, as a child of a test, says by its exit status which signals it was born to ignore.
struct BornSignals {
  static constexpr auto variable = "RAYTRAIN_TEST_BORN_SIGNALS";
  BornSignals() {
    if (std::getenv(variable) != nullptr) ::_exit(ignores(SIGUSR1) + 2 * ignores(SIGUSR2));
  }
  static auto ignores(int signal) -> int {
    struct sigaction action {};
    return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN ? 1 : 0;
  }
} const born_signals;

}  // namespace

TEST_CASE("this program again ignores SIGUSR1 and SIGUSR2 from birth where this process takes them, and only then") {
  std::promise<ProcessExit> ended;
  auto const take = [](int) {};
  auto* const before = ::signal(SIGUSR1, take);
  {
    ChildProcess const child{{.variables = {std::string{BornSignals::variable} + "=1"},
                              .on_exit = [&](ProcessExit exit) { ended.set_value(std::move(exit)); }}};
    CHECK(ended.get_future().get().status == 1);
  }
  ::signal(SIGUSR1, before);
}

TEST_CASE("the arguments of this program are those that it was started with, whatever it writes over them") {
  auto const arguments = raytrain::detail::program_arguments();
  REQUIRE_FALSE(arguments.empty());
  auto& first = program_invocation_name[0];
  auto const before = std::exchange(first, '#');
  CHECK(raytrain::detail::program_arguments() == arguments);
  first = before;
}

TEST_CASE("a process that exits has a status and no signal, and one that a signal ends has a signal and no status") {
  auto const exited = exit_of("exit 15");
  CHECK(exited.status == 15);
  CHECK(exited.signal == 0);
  CHECK(exited.text == "exited with status 15");
  auto const terminated = exit_of("kill -TERM $$");
  CHECK(terminated.status == std::nullopt);
  CHECK(terminated.signal == SIGTERM);
  CHECK(terminated.text == "was ended by signal 15 (Terminated)");
  CHECK(exit_of("kill -KILL $$").text ==
        "was ended by signal 9 (Killed): by somebody, or by the system where memory is short");
}

TEST_CASE("a process that does not end though it is killed is not waited for longer than the limit, and not told of") {
  using namespace std::chrono_literals;
  bool is_told = false;
  auto child = std::make_unique<ChildProcess>(ChildProcess::Options{
      .command = {"sleep", "300"}, .on_exit = [&](ProcessExit const&) { is_told = true; }, .kill_limit = 50ms});
  std::array<int, 2> traced{};
  std::array<int, 2> over{};
  REQUIRE(::pipe(traced.data()) == 0);
  REQUIRE(::pipe(over.data()) == 0);
  // Until who traces a process has asked for its end, nobody else learns of it.
  auto const tracer = ::fork();
  if (tracer == 0) {
    ::close(over[1]);
    auto const error = ::ptrace(PTRACE_SEIZE, child->pid(), nullptr, nullptr) == 0 ? '0' : '1';
    char end = 0;
    if (::write(traced[1], &error, 1) == 1) (void)!::read(over[0], &end, 1);
    ::_exit(0);
  }
  char error = 0;
  REQUIRE(::read(traced[0], &error, 1) == 1);
  if (error == '0') {
    child.reset();
    CHECK_FALSE(is_told);
  } else {
    MESSAGE("not tried: this system lets nobody trace a process");
  }
  for (auto const file : {traced[0], traced[1], over[0], over[1]}) ::close(file);
  ::waitpid(tracer, nullptr, 0);
}
