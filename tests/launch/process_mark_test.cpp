// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/detail/process_mark.hpp>

#include <fstream>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <doctest/doctest.h>

#include <raytrain/launch/detail/child_process.hpp>

#include "../support/temporary_folder.hpp"

using raytrain::detail::ChildProcess;
using raytrain::detail::ProcessExit;
using raytrain::detail::ProcessMark;
using raytrain::testing::TemporaryFolder;

namespace {

// A program that waits, and how it ends.
class Waiting {
 public:
  explicit Waiting(std::vector<std::string> variables, std::vector<std::string> command = {"sleep", "300"})
      : child_{{.command = std::move(command), .variables = std::move(variables), .on_exit = [this](ProcessExit exit) {
                  end_.set_value(std::move(exit));
                }}} {}

  [[nodiscard]] auto end() -> ProcessExit { return end_.get_future().get(); }
  void terminate() { child_.kill(SIGTERM); }

 private:
  std::promise<ProcessExit> end_;
  ChildProcess child_;
};

}  // namespace

TEST_CASE("a mark kills those that have it, and no others") {
  auto const mark = ProcessMark::create();
  Waiting marked{{mark.variable()}};
  Waiting other{{ProcessMark::create().variable()}};
  mark.kill_all();
  CHECK(marked.end().signal == SIGKILL);
  other.terminate();
  CHECK(other.end().signal == SIGTERM);
}

TEST_CASE("what a marked program marks has both marks") {
  auto const outer = ProcessMark::create();
  auto const variable = outer.variable();
  auto const middle = variable.find('=');
  ::setenv(variable.substr(0, middle).c_str(), variable.substr(middle + 1).c_str(), 1);
  Waiting marked{{ProcessMark::create().variable()}};
  ::unsetenv(variable.substr(0, middle).c_str());
  outer.kill_all();
  CHECK(marked.end().signal == SIGKILL);
}

TEST_CASE("the first processes of a mark are those that nobody with it has started, with their environments") {
  TemporaryFolder const folder;
  auto const pipe = (folder.path() / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  auto const mark = ProcessMark::create();
  CHECK(mark.first_processes().empty());
  Waiting marked{{mark.variable(), "OF_TEST=1"}, {"sh", "-c", "sleep 300 & echo $$ >'" + pipe + "'; wait"}};
  ::pid_t shell = 0;
  std::ifstream{pipe} >> shell;  // the other one is there, too
  auto const first = mark.first_processes();
  mark.kill_all();
  REQUIRE(first.size() == 1);
  CHECK(first.begin()->first == shell);
  CHECK(first.begin()->second.find(std::string{"OF_TEST=1\0", 10}) != std::string::npos);
  CHECK(marked.end().signal == SIGKILL);
}
