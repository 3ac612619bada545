// SPDX-License-Identifier: Apache-2.0
#include <raytrain/train/detail/stop_signals.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "../support/child_process.hpp"
#include "minimal_run.hpp"

namespace {

using namespace std::chrono_literals;
using raytrain::detail::StopCounter;
using raytrain::detail::StopSignals;

// A signal and the time since the one before.
using Sent = std::pair<int, std::chrono::milliseconds>;

auto requests(std::vector<Sent> const& sent) -> std::vector<std::uint32_t> {
  StopCounter counter;
  StopCounter::TimePoint now{};
  std::vector<std::uint32_t> requested;
  for (auto const& [signal, later] : sent) {
    now += later;
    if (auto const times = counter.count(signal, now); times > 0) requested.push_back(times);
  }
  return requested;
}

using Requests = std::vector<std::uint32_t>;

// In a child process, which has the handlers that a program begins with.
template <class Body>
auto in_program(Body body) -> ChildOutcome {
  return in_child([&body] {
    for (auto const signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
    return std::string{body()};
  });
}

// Calls `act` in one place of a run; blocks there afterwards, if it shall.
struct At : Callback {
  At(std::string_view where, std::function<void()> what) : place{where}, act{std::move(what)} {}
  void on_start(RunInfo const&) override { at("on_start"); }
  void on_report(Report const&, Metrics const&) override { at("on_report"); }
  void on_checkpoint(Checkpoint const&) override { at("on_checkpoint"); }
  auto on_warning(std::string_view) -> bool override {
    at("on_warning");
    return true;
  }
  void on_finish(Result const&) override { at("on_finish"); }
  void at(std::string_view where) const {
    if (where == place) act();
  }
  std::string place;
  std::function<void()> act;
};

auto train_with(TemporaryFolder const& folder, std::shared_ptr<Callback> callback, int epochs = 2) -> Result {
  return MinimalTrainer{epochs_up_to(epochs),
                        {.run = {.name = "r", .storage_path = folder.path()}, .callbacks = {std::move(callback)}}}
      .fit();
}

// From now on stdout and stderr are a pipe that takes nothing, and stdout has text that waits.
void print_into_unread_pipe(bool reader_has_gone) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  if (reader_has_gone) {
    ::close(ends[0]);
  } else {
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (::write(ends[1], "x", 1) == 1) {
    }
    ::fcntl(ends[1], F_SETFL, 0);
  }
  for (auto const stream : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(ends[1], stream);
  std::printf("something");
}

}  // namespace

TEST_CASE("SIGTERM that follows another one within a second is the same request, and a later one is the second") {
  CHECK(requests({{SIGTERM, 0ms}, {SIGTERM, 0ms}, {SIGTERM, 999ms}}) == Requests{1});
  CHECK(requests({{SIGTERM, 0ms}, {SIGTERM, 1s}}) == Requests{1, 2});
  CHECK(requests({{SIGHUP, 0ms}, {SIGHUP, 999ms}, {SIGHUP, 1s}}) == Requests{1, 2});
}

TEST_CASE("each SIGINT counts, as somebody presses Ctrl-C") {
  CHECK(requests({{SIGINT, 0ms}, {SIGINT, 0ms}}) == Requests{1, 2});
  CHECK(requests({{SIGTERM, 0ms}, {SIGINT, 0ms}, {SIGINT, 0ms}}) == Requests{1, 2});
}

TEST_CASE("signals of several kinds that come at once are one request, and later ones the second") {
  CHECK(requests({{SIGINT, 0ms}, {SIGTERM, 0ms}, {SIGHUP, 10ms}}) == Requests{1});
  CHECK(requests({{SIGINT, 0ms}, {SIGTERM, 0ms}, {SIGINT, 10ms}, {SIGTERM, 0ms}}) == Requests{1, 2});
  CHECK(requests({{SIGTERM, 0ms}, {SIGINT, 2s}}) == Requests{1, 2});
  CHECK(requests({{SIGHUP, 0ms}, {SIGTERM, 2s}}) == Requests{1, 2});
}

TEST_CASE("behind the second request a signal finds the handler from before, although nobody has answered") {
  auto const outcome = in_program([] {
    std::signal(SIGINT, [](int) { ::_exit(33); });
    StopSignals const signals{"a test", [](std::uint32_t) {}};
    while (true) std::raise(SIGINT);
    return "";
  });
  CHECK(outcome.exit_code == 33);
}

TEST_CASE("a signal that ended no run does what it did before") {
  auto const outcome = in_program([] {
    {
      StopSignals const signals{"a test", [](std::uint32_t) {}};
    }
    std::raise(SIGTERM);
    return "";
  });
  CHECK(outcome.exit_code == -1);
}

TEST_CASE("a signal while callbacks see the end or the start of a run leaves a record that says how it ended") {
  auto const never = std::numeric_limits<int>::max();
  for (std::string const place : {"on_start", "on_finish"}) {
    TemporaryFolder const folder;
    auto const outcome = in_program([&] {
      auto const ask_to_stop = [] {
        std::raise(SIGTERM);
        std::raise(SIGHUP);
      };
      // The request may come to the workers late, and only it shall end a run that has begun.
      auto const result = train_with(folder, std::make_shared<At>(place, ask_to_stop), place == "on_start" ? never : 2);
      return std::string{to_string(result.state)};
    });
    std::string const expected = place == "on_start" ? "aborted" : "finished";
    CHECK(outcome.text == expected);
    CHECK(outcome.exit_code == 0);
    CHECK(std::string{to_string(Result::from_path(folder.path() / "r").state)} == expected);
  }
}

TEST_CASE("the second request ends a process whose callback does not return, wherever it is") {
  for (std::string const place : {"on_start", "on_report", "on_checkpoint", "on_finish"}) {
    TemporaryFolder const folder;
    auto const said = folder.path() / "said.txt";
    auto const outcome = in_program([&] {
      (void)std::freopen(said.c_str(), "w", stderr);
      (void)train_with(folder, std::make_shared<At>(place, [] {
                         std::raise(SIGINT);
                         std::raise(SIGINT);
                         while (true) ::pause();
                       }));
      return "returned";
    });
    CAPTURE(place);
    CHECK(outcome.text.empty());
    CHECK(outcome.exit_code == 75);
    std::ostringstream text;
    text << std::ifstream{said}.rdbuf();
    contains(text.str(), "raytrain: training 'r' did not end within 2 s of the second request to stop");
    auto const ended = Result::from_path(folder.path() / "r").state == RunState::finished;
    CHECK(ended == (place == "on_finish"));
  }
}

TEST_CASE("a worker that computes until its next collective is not ended with its process, though the grace is 0") {
  TemporaryFolder const folder;
  auto const outcome = in_program([&] {
    MinimalTrainer trainer{
        [](TrainContext& ctx) {
          if (ctx.world_rank() == Rank{1}) throw std::runtime_error{"as planned"};
          while (!ctx.stop_requested()) std::this_thread::yield();
          auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds{50};
          while (std::chrono::steady_clock::now() < until) {
          }
          ctx.barrier();
        },
        {.scaling = {.num_workers = 2},
         .run = {.name = "r", .storage_path = folder.path(), .stop_grace = {}, .on_hang = OnHang::exit_process}}};
    return message_of([&] { trainer.fit(); });
  });
  contains(outcome.text, "as planned");
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("of two runs in one process that are stopped twice, both record how they ended") {
  TemporaryFolder const folder;
  auto const outcome = in_program([&] {
    std::atomic<int> hanging = 0;
    std::atomic<int> warnings = 0;  // of the second run
    std::atomic<bool> first_has_ended = false;
    auto const hang_in = [&](std::string const& name, std::shared_ptr<Callback> callback) {
      (void)MinimalTrainer{[&](TrainContext&) {
                             ++hanging;
                             while (true) ::pause();
                           },
                           {.run = {.name = name, .storage_path = folder.path()}, .callbacks = {std::move(callback)}}}
          .fit();
    };
    std::jthread const first{
        [&] { hang_in("first", std::make_shared<At>("on_finish", [&] { first_has_ended = true; })); }};
    std::jthread const second{[&] {
      hang_in("second", std::make_shared<At>("on_warning", [&] {
                if (warnings++ == 0) return;  // of the first request
                while (!first_has_ended) std::this_thread::yield();
              }));
    }};
    while (hanging < 2) std::this_thread::yield();
    std::raise(SIGINT);
    while (warnings == 0) std::this_thread::yield();
    std::raise(SIGINT);
    return "returned";
  });
  CHECK(outcome.exit_code == 75);
  for (auto const* const name : {"first", "second"}) {
    CHECK(Result::from_path(folder.path() / name).state == RunState::aborted);
  }
}

TEST_CASE("a stop that is requested when every worker has returned is warned of") {
  TemporaryFolder const folder;
  auto const outcome = in_program([&] {
    auto const result = train_with(folder, std::make_shared<At>("on_finish", [] { std::raise(SIGTERM); }));
    return std::string{to_string(result.state)} + ": " + result.warnings.at(0);
  });
  CHECK(outcome.text ==
        "finished: a stop was requested when every worker had returned: this run has ended as if nobody had asked, "
        "and a program that goes on should end");
}

#ifndef __SANITIZE_THREAD__  // which flushes at _exit() itself, whether anybody reads or not
TEST_CASE("the second request ends a process with something to say, whether its reader has gone or does not read") {
  for (auto const has_gone : {true, false}) {
    CAPTURE(has_gone);
    TemporaryFolder const folder;
    auto const outcome = in_program([&] {
      (void)train_with(folder, std::make_shared<At>("on_report", [has_gone] {
                         print_into_unread_pipe(has_gone);
                         std::raise(SIGINT);
                         std::raise(SIGINT);
                         while (true) ::pause();
                       }));
      return "returned";
    });
    CHECK(outcome.text.empty());
    CHECK(outcome.exit_code == 75);
  }
}
#endif
