// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/process_mark.hpp>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include <stdlib.h>

#include <doctest/doctest.h>

#include <raytrain/launch/child_process.hpp>

using raytrain::detail::ChildProcess;
using raytrain::detail::ProcessMark;

namespace {

// A program that waits, and how it ends.
class Waiting {
 public:
  explicit Waiting(std::vector<std::string> variables)
      : child_{{.command = {"sleep", "300"}, .variables = std::move(variables), .on_exit = [this](std::string how) {
                  end_.set_value(std::move(how));
                }}} {}

  [[nodiscard]] auto end() -> std::string { return end_.get_future().get(); }
  void terminate() { child_.kill(SIGTERM); }

 private:
  std::promise<std::string> end_;
  ChildProcess child_;
};

}  // namespace

TEST_CASE("a mark kills those that have it, and no others") {
  auto const mark = ProcessMark::create();
  Waiting marked{{mark.variable()}};
  Waiting other{{ProcessMark::create().variable()}};
  mark.kill_all();
  CHECK(marked.end().starts_with("was ended by signal 9 "));
  other.terminate();
  CHECK(other.end().starts_with("was ended by signal 15 "));
}

TEST_CASE("what a marked program marks has both marks") {
  auto const outer = ProcessMark::create();
  auto const variable = outer.variable();
  auto const middle = variable.find('=');
  ::setenv(variable.substr(0, middle).c_str(), variable.substr(middle + 1).c_str(), 1);
  Waiting marked{{ProcessMark::create().variable()}};
  ::unsetenv(variable.substr(0, middle).c_str());
  outer.kill_all();
  CHECK(marked.end().starts_with("was ended by signal 9 "));
}
