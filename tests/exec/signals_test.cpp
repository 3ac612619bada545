// SPDX-License-Identifier: Apache-2.0
#include <raytrain/exec/signals.hpp>

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>
#include <raytrain/exec/signal_thread.hpp>

#include "../support/child_process.hpp"

namespace {

using namespace std::chrono_literals;
using raytrain::SignalThread;
using raytrain::SignalWatcher;

volatile std::sig_atomic_t handled = 0;
void count_signal(int) { handled = handled + 1; }

auto is_handled_by(int signal, void (*handler)(int)) -> bool {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == handler;
}

// While it lives count_signal is the program's handler.
class CountingHandler {
 public:
  explicit CountingHandler(int signal) : signal_{signal} {
    handled = 0;
    struct sigaction counting {};
    counting.sa_handler = count_signal;
    sigaction(signal, &counting, &before_);
  }
  CountingHandler(CountingHandler const&) = delete;
  auto operator=(CountingHandler const&) -> CountingHandler& = delete;
  ~CountingHandler() { sigaction(signal_, &before_, nullptr); }

 private:
  int signal_;
  struct sigaction before_ {};
};

// How often two signals behind the watching have reached the handler from before it.
auto echoes_after(int signal, std::chrono::nanoseconds echo) -> int {
  CountingHandler const counting{signal};
  {
    SignalWatcher const watcher{{signal}};
    SignalWatcher::drop_echoes(signal, echo);
  }
  std::raise(signal);
  std::raise(signal);
  SignalWatcher::drop_echoes(signal, 0ns);
  return handled;
}

}  // namespace

TEST_CASE("signals that come while nobody waits are kept, each kind in order of its own") {
  SignalWatcher watcher{{SIGUSR1, SIGUSR2}};
  std::raise(SIGUSR1);
  std::raise(SIGUSR2);
  std::raise(SIGUSR1);
  CHECK(watcher.next() == SIGUSR1);
  CHECK(watcher.next() == SIGUSR1);
  CHECK(watcher.next() == SIGUSR2);
}

TEST_CASE("a thread that waits is told of a signal, and of the end of the watching") {
  SignalWatcher watcher{{SIGUSR1}};
  std::vector<std::optional<int>> seen;
  std::thread waiting{[&] {
    do seen.push_back(watcher.next());
    while (seen.back());
  }};
  std::raise(SIGUSR1);
  watcher.close();
  waiting.join();
  CHECK(seen.back() == std::nullopt);
  CHECK(watcher.next() == std::nullopt);
  CHECK(watcher.closes_within(1h));
}

TEST_CASE("a function is called for each signal that has come, before its thread has ended") {
  std::vector<int> seen;
  {
    SignalThread const thread{{SIGUSR1, SIGUSR2}, [&](int signal) { seen.push_back(signal); }};
    std::raise(SIGUSR2);
    std::raise(SIGUSR2);
  }
  CHECK(seen == std::vector{SIGUSR2, SIGUSR2});
}

TEST_CASE("a watcher that is not closed is waited for as long as was said") {
  SignalWatcher watcher{{SIGUSR1}};
  std::raise(SIGUSR1);
  CHECK_FALSE(watcher.closes_within(1ms));
}

TEST_CASE("what an ignored sender sends is dropped, from the first moment on, and hides no signal of another process") {
  CountingHandler const counting{SIGUSR1};
  {
    SignalWatcher watcher{{SIGUSR1}, ::getpid()};
    std::raise(SIGUSR1);
    CHECK(in_child([self = ::getpid()] { return std::to_string(::kill(self, SIGUSR1)); }).text == "0");
    std::raise(SIGUSR1);
    SignalWatcher all{{SIGUSR1}};
    std::raise(SIGUSR1);
    CHECK(all.next() == SIGUSR1);
    watcher.close();
    CHECK(watcher.next() == SIGUSR1);
    CHECK(watcher.next() == std::nullopt);
    CHECK(handled == 0);
  }
  CHECK(is_handled_by(SIGUSR1, count_signal));
  SignalWatcher later{{SIGUSR1}};
  std::raise(SIGUSR1);
  CHECK(later.next() == SIGUSR1);
}

TEST_CASE("SIGTERM ends the process as ever once a watcher that ignored a sender is gone") {
  auto const outcome = in_child([] {
    std::signal(SIGTERM, SIG_DFL);
    { SignalWatcher const watcher{{SIGTERM}, ::getppid()}; }
    std::raise(SIGTERM);
    return std::string{"it goes on"};
  });
  CHECK(outcome.text.empty());
  CHECK(outcome.exit_code == -1);
}

TEST_CASE("a sender is ignored also where another watcher has the signal already") {
  CountingHandler const counting{SIGUSR1};
  SignalWatcher all{{SIGUSR1}};
  SignalWatcher watcher{{SIGUSR1}, ::getpid()};
  std::raise(SIGUSR1);
  CHECK(all.next() == SIGUSR1);
  watcher.close();
  CHECK(watcher.next() == std::nullopt);
}

TEST_CASE("a watcher that ignores nobody leaves a handler that others may call with the number alone") {
  CountingHandler const counting{SIGUSR1};
  SignalWatcher const watcher{{SIGUSR1}};
  struct sigaction action {};
  sigaction(SIGUSR1, nullptr, &action);
  CHECK((action.sa_flags & SA_SIGINFO) == 0);
}

TEST_CASE("a function is not called for what an ignored sender has sent") {
  auto calls = 0;
  {
    SignalThread const thread{{SIGUSR1}, [&](int) { ++calls; }, ::getpid()};
    std::raise(SIGUSR1);
  }
  CHECK(calls == 0);
}

TEST_CASE("a signal that the program ignores is none of those that it heeds") {
  CountingHandler const counting{SIGUSR1};
  CHECK(SignalWatcher::heeded({SIGUSR1, SIGUSR2}) == std::vector{SIGUSR1, SIGUSR2});
  std::signal(SIGUSR1, SIG_IGN);
  CHECK(SignalWatcher::heeded({SIGUSR1, SIGUSR2}) == std::vector{SIGUSR2});
}

TEST_CASE("while a signal is watched the program's own handler rests, and afterwards it is back") {
  CountingHandler const counting{SIGUSR1};
  {
    SignalWatcher outer{{SIGUSR1}};
    {
      SignalWatcher inner{{SIGUSR1}};
      std::raise(SIGUSR1);
      CHECK(inner.next() == SIGUSR1);
    }
    CHECK_FALSE(is_handled_by(SIGUSR1, count_signal));
    std::raise(SIGUSR1);
    CHECK(handled == 0);
    CHECK(outer.next() == SIGUSR1);
    CHECK(outer.next() == SIGUSR1);
  }
  CHECK(is_handled_by(SIGUSR1, count_signal));
  std::raise(SIGUSR1);
  CHECK(handled == 1);
}

TEST_CASE("watchers of one signal may end in any order") {
  CountingHandler const counting{SIGUSR1};
  {
    auto first = std::make_unique<SignalWatcher>(std::vector{SIGUSR1});
    SignalWatcher second{{SIGUSR1}};
    first.reset();
    CHECK_FALSE(is_handled_by(SIGUSR1, count_signal));
    std::raise(SIGUSR1);
    CHECK(second.next() == SIGUSR1);
  }
  CHECK(is_handled_by(SIGUSR1, count_signal));
}

TEST_CASE("a watcher is not told of a signal that came before it") {
  CountingHandler const counting{SIGUSR1};
  {
    SignalWatcher const before{{SIGUSR1}};
    std::raise(SIGUSR1);
  }
  SignalWatcher watcher{{SIGUSR1}};
  watcher.close();
  CHECK(watcher.next() == std::nullopt);
}

TEST_CASE("a signal that cannot be caught is refused, and none of the others stays watched") {
  CountingHandler const counting{SIGUSR1};
  CHECK_THROWS_WITH_AS((SignalWatcher{{SIGUSR1, SIGKILL}}),
                       "SignalWatcher: signal 9 cannot be caught: Invalid argument; watch signals such as SIGINT and "
                       "SIGTERM",
                       raytrain::Error);
  CHECK(is_handled_by(SIGUSR1, count_signal));
}

TEST_CASE("sixteen watchers find room at once, and one more is refused until one has ended") {
  std::vector<std::unique_ptr<SignalWatcher>> watchers;
  auto const add = [&] { watchers.push_back(std::make_unique<SignalWatcher>(std::vector{SIGUSR1})); };
  for (auto i = 0; i < 16; ++i) add();
  CHECK_THROWS_WITH_AS(add(),
                       "SignalWatcher: 16 others watch already in this process; set RunConfig::handle_signals = false "
                       "for trainings beyond these",
                       raytrain::Error);
  watchers.pop_back();
  CHECK_NOTHROW(add());
}

TEST_CASE("in a forked child a signal does at once what it did before the watching") {
  CountingHandler const counting{SIGUSR1};
  SignalWatcher watcher{{SIGUSR1}};
  auto const outcome = in_child([] {
    std::raise(SIGUSR1);
    auto const of_parent = handled;
    SignalWatcher own{{SIGUSR1}};
    std::raise(SIGUSR1);
    return std::to_string(of_parent) + (own.next() == SIGUSR1 ? ", and its own" : "");
  });
  CHECK(outcome.text == "1, and its own");
  watcher.close();
  CHECK(watcher.next() == std::nullopt);
}

TEST_CASE(
    "echoes of a signal are dropped when nobody watches any more, and what comes later finds the handler from before") {
  CHECK(echoes_after(SIGTERM, 1h) == 0);
  CHECK(echoes_after(SIGTERM, 0ns) == 2);
  CHECK(echoes_after(SIGHUP, 1h) == 0);
}

TEST_CASE("a handler that the program sets while a signal is watched stays when the watching ends") {
  CountingHandler const counting{SIGUSR1};
  {
    SignalWatcher const watcher{{SIGUSR1}};
    std::signal(SIGUSR1, SIG_IGN);
  }
  CHECK(is_handled_by(SIGUSR1, SIG_IGN));
}

TEST_CASE("while echoes are dropped a call is interrupted as by the program's own handler") {
  for (auto const flags : {0, SA_RESTART}) {
    CountingHandler const counting{SIGTERM};
    struct sigaction own {};
    own.sa_handler = count_signal;
    own.sa_flags = flags;
    sigaction(SIGTERM, &own, nullptr);
    {
      SignalWatcher const watcher{{SIGTERM}};
      SignalWatcher::drop_echoes(SIGTERM, 1h);
    }
    struct sigaction left {};
    sigaction(SIGTERM, nullptr, &left);
    CHECK((left.sa_flags & SA_RESTART) == flags);
    SignalWatcher::drop_echoes(SIGTERM, 0ns);
  }
}

namespace {

void (*handler_before)(int) = nullptr;
void chain(int signal) {
  count_signal(signal);
  handler_before(signal);
}

}  // namespace

TEST_CASE("a handler that the program sets while a signal is watched stays when it calls the one before") {
  CountingHandler const counting{SIGUSR1};
  {
    SignalWatcher const watcher{{SIGUSR1}};
    handler_before = std::signal(SIGUSR1, chain);
  }
  std::raise(SIGUSR1);
  CHECK(handled == 2);
  CHECK(is_handled_by(SIGUSR1, chain));
  { SignalWatcher const again{{SIGUSR1}}; }
  std::raise(SIGUSR1);
  CHECK(handled == 3);
}

TEST_CASE("numbers that are no signals are refused, and take no room from other watchers") {
  for (int i = 0; i < 20; ++i) {
    for (int const signal : {-1, 0, NSIG}) CHECK_THROWS_AS(SignalWatcher{{signal}}, raytrain::Error);
  }
  CHECK_NOTHROW(SignalWatcher{{SIGUSR1}});
}
