// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/hang_watch.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/signs_of_life.hpp>
#include <raytrain/launch/message_sink.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

using namespace raytrain;
using std::chrono::milliseconds;
using Verdict = Silence::Verdict;
using Activity = SignsOfLife::Activity;

namespace {

// A worker that is looked at as often as a case likes, with the time that passes.
class Looked {
 public:
  explicit Looked(milliseconds limit = {}) : silence{limit} {}

  auto look() -> Verdict { return silence.look(signs, now += Silence::period); }

  // The looks until the first verdict, which is to be this one; 0 when it does not come within 1000.
  auto looks_until(Verdict expected) -> int {
    for (int looks = 1; looks <= 1000; ++looks) {
      auto const verdict = look();
      if (verdict != Verdict::none) return verdict == expected ? looks : 0;
    }
    return 0;
  }

  void work(int steps, int looks_a_step = 1) {
    for (int step = 0; step < steps; ++step) {
      signs.beat();
      for (int look_no = 0; look_no < looks_a_step; ++look_no) CHECK(look() == Verdict::none);
    }
  }

  SignsOfLife signs;
  SignsOfLife::Owner owner{signs};
  SignsOfLife::Clock::time_point now{};
  Silence silence;
};

// What workers have sent.
class Sent final : public MessageSink {
 public:
  auto send(WorkerMessage message) -> bool override {
    {
      std::scoped_lock const lock{mutex_};
      messages_.push_back(std::move(message));
    }
    changed_.notify_all();
    return true;
  }

  template <class M>
  auto wait_for() -> M {
    std::unique_lock lock{mutex_};
    M found;
    auto const is_there = [&] {
      for (auto const& message : messages_) {
        if (auto const* const what = std::get_if<M>(&message)) found = *what;
        if (std::holds_alternative<M>(message)) return true;
      }
      return false;
    };
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds{60}, is_there));
    return found;
  }

  auto count() -> std::size_t {
    std::scoped_lock const lock{mutex_};
    return messages_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<WorkerMessage> messages_;
};

auto contains(std::string const& text, std::string const& part) -> bool { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("silence is unusual from 0.8 s on, once, and only when it is known what is usual") {
  Looked beginner;
  beginner.work(19);
  CHECK(beginner.looks_until(Verdict::unusual) == 0);
  Looked worker;
  worker.work(20);
  CHECK(worker.looks_until(Verdict::unusual) == 8);
  for (int i = 0; i < 12; ++i) CHECK(worker.look() == Verdict::none);
  worker.work(1);
  CHECK(worker.looks_until(Verdict::unusual) == 200);
}

TEST_CASE("silence is unusual at ten times the longest so far") {
  Looked worker;
  worker.work(19, 3);
  worker.work(1, 4);  // its sign, and three looks without another one
  worker.work(1);
  CHECK(worker.looks_until(Verdict::unusual) == 30);
}

TEST_CASE("silence of a worker that waits for others, saves or has announced it is not unusual") {
  for (auto const activity : {Activity::waits, Activity::saves, Activity::fills, Activity::reports}) {
    Looked worker;
    worker.work(20);
    SignsOfLife::During const during{activity};
    CHECK(worker.looks_until(Verdict::unusual) == 0);
  }
  Looked worker;
  worker.work(20);
  worker.signs.expect_silence(std::chrono::seconds{5}, worker.now);
  for (int i = 0; i < 49; ++i) CHECK(worker.look() == Verdict::none);
  CHECK(worker.looks_until(Verdict::unusual) == 8);  // from the end of what it has announced on
}

TEST_CASE(
    "silence is over at its limit, again and again until it ends, whatever the worker does, unless it was announced") {
  for (auto const activity : {Activity::own_work, Activity::waits, Activity::fills}) {
    Looked worker{milliseconds{500}};
    SignsOfLife::During const during{activity};
    CHECK(worker.looks_until(Verdict::over) == 5);
    CHECK(worker.looks_until(Verdict::over) == 10);  // a second later
    worker.signs.beat();
    CHECK(worker.look() == Verdict::ended);
    CHECK(worker.looks_until(Verdict::over) == 5);
    CHECK(worker.silence.activity() == activity);
    CHECK_FALSE(worker.silence.is_broken(worker.signs));
    worker.signs.expect_silence(std::chrono::seconds{1}, worker.now);
    CHECK(worker.look() == Verdict::ended);
    for (int i = 0; i < 8; ++i) CHECK(worker.look() == Verdict::none);
    CHECK(worker.looks_until(Verdict::over) == 5);
    worker.signs.expect_silence(milliseconds{0}, worker.now);  // takes it back
    CHECK(worker.looks_until(Verdict::over) == 10);
    worker.signs.beat();
    CHECK(worker.silence.is_broken(worker.signs));
  }
}

TEST_CASE("a worker that saves or reports is held up when its limit is over, once, and does not fail") {
  for (auto const activity : {Activity::saves, Activity::reports}) {
    Looked worker{milliseconds{500}};
    SignsOfLife::During const during{activity};
    CHECK(worker.looks_until(Verdict::held_up) == 5);
    CHECK(worker.looks_until(Verdict::held_up) == 0);
  }
}

TEST_CASE("silence may be announced, and limited, for longer than a clock can count") {
  Looked worker{milliseconds::max()};
  worker.signs.expect_silence(milliseconds::max(), worker.now);
  CHECK(worker.looks_until(Verdict::over) == 0);
  worker.signs.expect_silence(milliseconds{0}, worker.now);
  CHECK(worker.looks_until(Verdict::over) == 0);
}

TEST_CASE("time in waits and for checkpoints is summed up once, and other threads' waits are nobody's") {
  SignsOfLife signs;
  {
    SignsOfLife::Owner const owner{signs};
    CHECK(signs.time_away().count() == 0);
    auto const began = SignsOfLife::Clock::now();
    {
      SignsOfLife::During const saves{Activity::saves};
      SignsOfLife::During const waits{Activity::waits};
      CHECK(signs.activity() == Activity::waits);
      auto const until = SignsOfLife::Clock::now() + milliseconds{10};  // from within, where time is summed up
      while (SignsOfLife::Clock::now() < until) continue;
    }
    CHECK(signs.activity() == Activity::own_work);
    CHECK(signs.time_away() >= milliseconds{10});
    CHECK(signs.time_away() <= SignsOfLife::Clock::now() - began);
  }
  auto const away = signs.time_away();
  auto const beats = signs.beats();
  { SignsOfLife::During const waits{Activity::waits}; }
  SignsOfLife::beat_here();
  CHECK(signs.time_away() == away);
  CHECK(signs.beats() == beats);
}

TEST_CASE("a worker that computes without an end says so, first as a warning, and where it is") {
  Sent sent;
  WorkerLink link{{.world_rank = Rank{2}, .world_size = WorldSize{3}}, sent, Attempt{4}};
  HangWatch watch{milliseconds{2000}};
  std::atomic<bool> ending = false;
  std::thread worker{[&] {
    HangWatch::Watched const watched{watch, link};
    auto const works_until = SignsOfLife::Clock::now() + milliseconds{2500};
    while (SignsOfLife::Clock::now() < works_until) SignsOfLife::beat_here();
    while (!ending) continue;
  }};
  auto const warning = sent.wait_for<Warning>();
  CAPTURE(warning.text);
  CHECK(warning.rank == Rank{2});
  CHECK(warning.text.starts_with("rank 2 has shown no sign of life for "));
  CHECK(contains(warning.text, " ms, much longer than ever before: it computes; "));
  auto const silent = sent.wait_for<Silent>();
  CAPTURE(silent.doing);
  CHECK(silent.rank == Rank{2});
  CHECK(silent.attempt == Attempt{4});
  CHECK(silent.silent_ms >= 2000);
  CHECK_FALSE(silent.waits);
  CHECK(silent.doing.starts_with("it computes"));
  ending = true;
  worker.join();
  auto const count = sent.count();
  CHECK(count >= 2);
}

namespace {

// What a worker sends that is in one activity and waits there.
template <class M>
auto sent_while(Activity activity) -> M {
  Sent sent;
  WorkerLink link{{}, sent};
  HangWatch watch{milliseconds{500}};
  std::mutex mutex;
  std::condition_variable changed;
  auto ending = false;
  std::thread worker{[&] {
    HangWatch::Watched const watched{watch, link};
    SignsOfLife::During const during{activity};
    std::unique_lock lock{mutex};
    changed.wait(lock, [&] { return ending; });
  }};
  auto message = sent.wait_for<M>();
  {
    std::scoped_lock const lock{mutex};
    ending = true;
  }
  changed.notify_all();
  worker.join();
  return message;
}

}  // namespace

TEST_CASE("a worker that waits for others says that, and one that is held up says by what") {
  auto const silent = sent_while<Silent>(Activity::waits);
  CHECK(silent.waits);
  CHECK(silent.doing.starts_with("it waits for a lock or another thread"));
  CHECK(
      sent_while<Warning>(Activity::saves).text ==
      "rank 0 has waited for 500 ms for its checkpoints to be written, which FailureConfig::hang_timeout does not end; "
      "look for a slow disk or callback");
  CHECK(
      contains(sent_while<Warning>(Activity::reports).text, " ms for the controller to take what it reports, which "));
}
