// SPDX-License-Identifier: Apache-2.0
#include <raytrain/core/thread_state.hpp>

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include <doctest/doctest.h>

using namespace raytrain;

namespace {

// A thread that does something until it is told to end.
class BusyThread {
 public:
  explicit BusyThread(std::function<void(std::atomic<bool> const&)> const& work, std::function<void()> const& wake = {})
      : wake_{wake}, thread_{[this, work] {
          id_ = ::gettid();
          id_.notify_all();
          work(ending_);
        }} {
    id_.wait(0);
  }
  BusyThread(BusyThread const&) = delete;
  auto operator=(BusyThread const&) -> BusyThread& = delete;
  ~BusyThread() {
    ending_ = true;
    if (wake_) wake_();
    thread_.join();
  }

  [[nodiscard]] auto id() const -> pid_t { return id_; }

  // Waits until it does so: it needs a moment to come there.
  [[nodiscard]] auto comes_to(std::string const& activity) const -> bool {
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (thread_activity(id_) != activity) {
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }

 private:
  std::atomic<bool> ending_ = false;
  std::atomic<pid_t> id_ = 0;
  std::function<void()> wake_;
  std::thread thread_;
};

// One that waits for a condition.
struct WaitingThread {
  std::mutex mutex;
  std::condition_variable changed;
  BusyThread thread{[this](std::atomic<bool> const& ending) {
                      std::unique_lock lock{mutex};
                      changed.wait(lock, [&] { return ending.load(); });
                    },
                    [this] {
                      { std::scoped_lock const lock{mutex}; }
                      changed.notify_all();
                    }};
};

}  // namespace

TEST_CASE("what a thread does is told apart: it computes, waits for a lock, sleeps or waits for data") {
  {
    BusyThread const computes{[](std::atomic<bool> const& ending) {
      while (!ending) continue;
    }};
    CHECK(computes.comes_to("it computes"));
  }
  {
    WaitingThread const waits;
    CHECK(waits.thread.comes_to("it waits for a lock or another thread"));
  }
  {
    BusyThread const sleeps{[](std::atomic<bool> const& ending) {
      timespec const time{.tv_sec = 0, .tv_nsec = 100'000'000};
      while (!ending) ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
    }};
    CHECK(sleeps.comes_to("it sleeps"));
  }
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  {
    BusyThread const reads{[&](std::atomic<bool> const&) {
                             char byte = 0;
                             CHECK(::read(pipe[0], &byte, 1) == 1);
                           },
                           [&] { CHECK(::write(pipe[1], "x", 1) == 1); }};
    CHECK(reads.comes_to("it waits for data"));
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
  CHECK(thread_activity(0).empty());
}

TEST_CASE("a thread's stack names the functions in which it waits, and asking does not disturb it") {
  WaitingThread const waits;
  REQUIRE(waits.thread.comes_to("it waits for a lock or another thread"));
  for (int i = 0; i < 3; ++i) {
    auto const stack = thread_stack(waits.thread.id());
    CAPTURE(stack);
    CHECK(stack.starts_with("in "));
    CHECK(stack.find("pthread_cond_wait") != std::string::npos);
    CHECK(stack.find(", called by ") != std::string::npos);
  }
  CHECK(waits.thread.comes_to("it waits for a lock or another thread"));
}

TEST_CASE("a thread that is not there, or that has blocked the signal, has no stack") {
  CHECK(thread_stack(0).empty());
  BusyThread const blocks{[](std::atomic<bool> const& ending) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    while (!ending) continue;
  }};
  REQUIRE(blocks.comes_to("it computes"));
  // It may be asked before it has come so far.
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  while (!thread_stack(blocks.id()).empty()) REQUIRE(std::chrono::steady_clock::now() < deadline);
  WaitingThread const waits;  // whose answer is not mixed up with the late one
  CHECK(waits.thread.comes_to("it waits for a lock or another thread"));
  CHECK(thread_stack(waits.thread.id()).find("pthread_cond_wait") != std::string::npos);
}

TEST_CASE("a program's own handler of SIGURG stays, and no thread is asked") {
  struct sigaction own {};
  struct sigaction before {};
  own.sa_handler = [](int) {};
  REQUIRE(::sigaction(SIGURG, &own, &before) == 0);
  CHECK(thread_stack(::gettid()).empty());
  struct sigaction after {};
  REQUIRE(::sigaction(SIGURG, &before, &after) == 0);
  auto const is_own = after.sa_handler == own.sa_handler;
  CHECK(is_own);
}
