// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/child_process.hpp>

#include <signal.h>

#include <future>
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

}  // namespace

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
