// SPDX-License-Identifier: Apache-2.0
#include <raytrain/exec/scope.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <asio/awaitable.hpp>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <raytrain/core/clock.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/testing/random_seed.hpp>

using raytrain::testing::random_seed;

namespace {

using raytrain::Channel;
using raytrain::Executor;
using raytrain::Scope;
using raytrain::SystemClock;
using Log = std::vector<std::string>;

auto yield(int times) -> asio::awaitable<void> {
  for (int time = 0; time < times; ++time) co_await asio::post(asio::use_awaitable);
}

auto say(Log& log, std::string text, int after) -> asio::awaitable<void> {
  co_await yield(after);
  log.push_back(std::move(text));
}

auto fail(std::string text, int after) -> asio::awaitable<void> {
  co_await yield(after);
  throw std::runtime_error{text};
}

/// Waits for ever, and logs how that ended.
auto wait_for_ever(Executor& executor, Log& log) -> asio::awaitable<void> {
  Channel<int> silent{executor, 1};
  try {
    co_await silent.receive();
  } catch (std::system_error const& error) {
    log.push_back(error.code() == asio::error::operation_aborted ? "cancelled" : error.what());
    throw;
  }
}

auto cancel_twice(Scope& scope, int after) -> asio::awaitable<void> {
  co_await yield(after);
  scope.cancel();
  scope.cancel();
}

}  // namespace

TEST_CASE("join waits for every child, and for those that a child spawns") {
  SystemClock clock;
  Executor executor{clock};
  Scope scope{executor};
  Log log;
  struct Parent {
    static auto run(Scope& scope, Log& log) -> asio::awaitable<void> {
      co_await yield(1);
      scope.spawn(say(log, "grandchild", 4));
    }
  };
  scope.spawn(say(log, "second", 2));
  scope.spawn(say(log, "first", 1));
  scope.spawn(Parent::run(scope, log));
  executor.run(scope.join());
  CHECK(log == Log{"first", "second", "grandchild"});
}

TEST_CASE("join of an empty scope returns, and a joined scope takes further children") {
  SystemClock clock;
  Executor executor{clock};
  Scope scope{executor};
  Log log;
  executor.run(scope.join());
  scope.spawn(say(log, "once", 0));
  executor.run(scope.join());
  scope.spawn(say(log, "again", 0));
  executor.run(scope.join());
  CHECK(log == Log{"once", "again"});
}

namespace {

auto join_between(Executor& executor, Log& log) -> asio::awaitable<void> {
  Scope scope{executor};
  scope.spawn(yield(0));
  co_await yield(1);  // the scope has become empty, and is about to say so
  scope.spawn(say(log, "late child", 5));
  co_await scope.join();
  log.push_back("joined");
}

}  // namespace

TEST_CASE("join waits for a child that was spawned just after the scope had become empty") {
  SystemClock clock;
  Executor executor{clock};
  Log log;
  executor.run(join_between(executor, log));
  CHECK(log == Log{"late child", "joined"});
}

TEST_CASE("the first child that throws cancels the others, and join throws its exception") {
  SystemClock clock;
  Executor executor{clock};
  Scope scope{executor};
  Log log;
  scope.spawn(wait_for_ever(executor, log));
  scope.spawn(fail("first failure", 1));
  scope.spawn(fail("second failure", 5));
  scope.spawn(wait_for_ever(executor, log));
  CHECK_THROWS_WITH_AS(executor.run(scope.join()), "first failure", std::runtime_error);
  CHECK(log == Log{"cancelled", "cancelled"});
}

TEST_CASE("a child that throws before it ever waits is a failure like any other") {
  SystemClock clock;
  Executor executor{clock};
  Log log;
  Scope scope{executor};
  scope.spawn(fail("at once", 0));
  scope.spawn(wait_for_ever(executor, log));
  CHECK_THROWS_WITH_AS(executor.run(scope.join()), "at once", std::runtime_error);
}

TEST_CASE("cancel may be called twice, and children that end by it have not failed") {
  SystemClock clock;
  Executor executor{clock};
  Scope scope{executor};
  Log log;
  scope.spawn(wait_for_ever(executor, log));
  scope.spawn(cancel_twice(scope, 3));
  executor.run(scope.join());
  CHECK(log == Log{"cancelled"});
}

TEST_CASE("an aborted operation is a failure when nobody cancelled the scope") {
  SystemClock clock;
  Executor executor{clock};
  Scope scope{executor};
  struct Child {
    static auto run() -> asio::awaitable<void> {
      co_await yield(1);
      throw std::system_error{std::error_code{asio::error::operation_aborted}};
    }
  };
  scope.spawn(Child::run());
  CHECK_THROWS_AS(executor.run(scope.join()), std::system_error);
}

TEST_CASE("what goes wrong while a child is being cancelled is not lost") {
  SystemClock clock;
  Executor executor{clock};
  Scope scope{executor};
  struct Child {
    static auto run(Executor& executor) -> asio::awaitable<void> {
      Channel<int> silent{executor, 1};
      try {
        co_await silent.receive();
      } catch (std::system_error const&) {
        throw std::runtime_error{"the file could not be closed"};
      }
    }
  };
  scope.spawn(Child::run(executor));
  scope.spawn(cancel_twice(scope, 1));
  CHECK_THROWS_WITH_AS(executor.run(scope.join()), "the file could not be closed", std::runtime_error);
}

TEST_CASE("a cancelled scope starts no child, and what the child was given is released") {
  SystemClock clock;
  Executor executor{clock};
  Scope scope{executor};
  struct Child {
    static auto run(std::shared_ptr<int> value, Log& log) -> asio::awaitable<void> {
      log.push_back("started");
      ++*value;
      co_return;
    }
  };
  Log log;
  auto const value = std::make_shared<int>(0);
  scope.cancel();
  scope.spawn(Child::run(value, log));
  CHECK(value.use_count() == 1);
  executor.run(scope.join());
  CHECK(log.empty());
}

namespace {

auto join_inner(Executor& executor, Log& log) -> asio::awaitable<void> {
  Scope inner{executor};
  inner.spawn(wait_for_ever(executor, log));
  inner.spawn(say(log, "inner took its time", 6));
  try {
    co_await inner.join();
  } catch (std::system_error const&) {
    log.push_back("join threw");
    throw;
  }
  log.push_back("join returned");
}

/// Reaches its join after it has been cancelled.
auto join_late(Executor& executor, Log& log) -> asio::awaitable<void> {
  co_await yield(3);
  co_await join_inner(executor, log);
}

}  // namespace

TEST_CASE("a coroutine that is cancelled in join cancels its children, waits for all of them, and then throws") {
  SystemClock clock;
  Executor executor{clock};
  Scope outer{executor};
  Log log;
  outer.spawn(join_inner(executor, log));
  outer.spawn(cancel_twice(outer, 1));
  executor.run(outer.join());
  CHECK(log == Log{"cancelled", "inner took its time", "join threw"});
}

TEST_CASE("a coroutine that was cancelled before its join waits for its children all the same") {
  SystemClock clock;
  Executor executor{clock};
  Scope outer{executor};
  Log log;
  outer.spawn(join_late(executor, log));
  outer.spawn(cancel_twice(outer, 1));
  executor.run(outer.join());
  CHECK(log == Log{"cancelled", "inner took its time", "join threw"});
}

namespace {

struct Living {
  explicit Living(int& count_) : count{count_} { ++count; }
  Living(Living const&) = delete;
  ~Living() { --count; }
  int& count;
};

/// A random tree of scopes, whose coroutines wait, fail and cancel at random.
auto grow(Executor& executor, int& living, std::uint64_t seed, int depth) -> asio::awaitable<void> {
  std::mt19937_64 random{seed};
  Living const self{living};
  Scope scope{executor};
  Log log;
  if (depth > 0) {
    for (auto children = random() % 5; children > 0; --children) {
      scope.spawn(grow(executor, living, random(), depth - 1));
    }
  }
  auto const what = random() % 8;
  auto const when = static_cast<int>(random() % 6);
  if (what == 0) scope.spawn(fail("random failure", when));
  if (what == 1) scope.spawn(cancel_twice(scope, when));
  if (what == 2) {
    scope.spawn(wait_for_ever(executor, log));
    scope.spawn(cancel_twice(scope, when));
  }
  scope.spawn(yield(when));
  co_await scope.join();
}

}  // namespace

TEST_CASE("whatever fails and is cancelled in a tree of scopes, nothing lives on after the join") {
  auto const seed = random_seed();
  std::mt19937_64 random{seed};
  int failures = 0;
  for (int round = 0; round < 200; ++round) {
    SystemClock clock;
    Executor executor{clock};
    int living = 0;
    try {
      executor.run(grow(executor, living, random(), 4));
    } catch (std::exception const& error) {
      CHECK(std::string{error.what()} == "random failure");
      ++failures;
    }
    CHECK(living == 0);
  }
  CHECK(failures > 0);
  CHECK(failures < 200);
}

TEST_CASE("a scope that is destroyed while a child runs ends the program") {
  auto const child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);
    auto const nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    SystemClock clock;
    Executor executor{clock};
    Log log;
    {
      Scope scope{executor};
      scope.spawn(wait_for_ever(executor, log));
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}
