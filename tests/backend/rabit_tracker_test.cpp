// SPDX-License-Identifier: Apache-2.0
// The tracker for XGBoost 1.7 and 2.0 without XGBoost: whoever connects to it, byte by byte.
#include <raytrain/backend/xgboost/detail/rabit_tracker.hpp>
#include <raytrain/backend/xgboost/detail/rabit_wire.hpp>
#include <raytrain/testing/random_seed.hpp>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../support/thrown_error.hpp"
#include "tracker_ends.hpp"

using namespace raytrain;
using namespace raytrain::testing;
using detail::RabitGreetingDecoder;
using detail::RabitTracker;
using detail::RabitWriter;
using std::chrono::milliseconds;

namespace {

auto greeting(std::string const& task, std::string const& command, std::int32_t world = -1,
              std::string const& text = "") -> Bytes {
  RabitWriter writer;
  writer.add(detail::rabit_magic).add(-1).add(world).add(std::string_view{task}).add(std::string_view{command});
  if (!text.empty()) writer.add(std::string_view{text});
  return writer.bytes();
}

/// A worker as the test writes it.
class RabitWorker : public RawPeer {
 public:
  RabitWorker(RabitTracker const& tracker, Rank rank, std::string const& command, std::int32_t world = -1,
              std::string const& text = "")
      : RawPeer{address_of(tracker.arguments())} {
    send(greeting(tracker.arguments().task_id(rank), command, world, text));
    CHECK(number() == detail::rabit_magic);
  }

  void say(std::int32_t number) const {
    RabitWriter writer;
    writer.add(number);
    send(writer.bytes());
  }

  [[nodiscard]] auto number() const -> std::int32_t {
    auto const bytes = read(4);
    std::int32_t number = 0;
    REQUIRE(bytes.size() == 4);
    std::memcpy(&number, bytes.data(), 4);
    return number;
  }

  [[nodiscard]] auto numbers(std::size_t count) const -> std::vector<std::int32_t> {
    std::vector<std::int32_t> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(number());
    return all;
  }

  [[nodiscard]] auto text() const -> std::string {
    auto const bytes = read(static_cast<std::size_t>(number()));
    return std::string{text_of(bytes)};
  }
};

struct Tracking {
  explicit Tracking(std::uint32_t world, XGBoostTrackerOptions options = {}) {
    options.world = WorldSize{world};
    tracker.emplace(options, log.events(), "the-secret");
  }
  TrackerLog log;
  std::optional<RabitTracker> tracker;
};

using Numbers = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("each rank's links are its neighbours in the ring and in the tree, and theirs are it") {
  for (std::uint32_t size = 1; size < 40; ++size) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      auto const links = detail::rabit_links(Rank{rank}, WorldSize{size});
      CHECK(links.everybody.count(static_cast<std::int32_t>(rank)) == 0);
      CHECK((links.parent == -1) == (rank == 0));
      for (auto const peer : links.everybody) {
        auto const others = detail::rabit_links(Rank{static_cast<std::uint32_t>(peer)}, WorldSize{size});
        CHECK(others.everybody.count(static_cast<std::int32_t>(rank)) == 1);
      }
    }
  }
  auto const links = detail::rabit_links(Rank{1}, WorldSize{5});
  CHECK(links.parent == 0);
  CHECK((links.tree == Numbers{0, 3, 4}));
  CHECK(links.previous == 0);
  CHECK(links.next == 2);
}

TEST_CASE("two workers are told their ranks in the order of their task ids, and with whom to connect") {
  Tracking tracking{2, {.greeting_timeout = std::chrono::hours{1}}};
  RawPeer const silent{address_of(tracking.tracker->arguments())};
  // The one that comes first is the second one.
  RabitWorker const second{*tracking.tracker, Rank{1}, "start"};
  RabitWorker const first{*tracking.tracker, Rank{0}, "start"};
  // Rank, parent, world, one neighbour in the tree, previous, next.
  CHECK((first.numbers(7) == Numbers{0, -1, 2, 1, 1, 1, 1}));
  first.say(0);                                // good links
  CHECK((first.numbers(2) == Numbers{0, 1}));  // connects to none, one will come
  first.say(0);                                // failures
  first.say(4711);                             // where it listens
  CHECK((second.numbers(7) == Numbers{1, 0, 2, 1, 0, 0, 0}));
  second.say(0);
  CHECK((second.numbers(2) == Numbers{1, 0}));
  CHECK(second.text() == "127.0.0.1");
  CHECK((second.numbers(2) == Numbers{4711, 0}));
  second.say(1);  // could not connect
  second.say(0);
  CHECK((second.numbers(2) == Numbers{1, 0}));
  CHECK(second.text() == "127.0.0.1");
  CHECK((second.numbers(2) == Numbers{4711, 0}));
  second.say(0);
  second.say(4712);
  CHECK(second.is_closed());
  for (auto const rank : {0U, 1U}) {
    CHECK(RabitWorker{*tracking.tracker, Rank{rank}, "shutdown"}.is_closed());
  }
  // Now it has ended by itself.
  CHECK(silent.is_closed());
  CHECK_FALSE(tracking.tracker->error());
  CHECK(tracking.log.strangers.empty());
}

TEST_CASE("a worker that brings what cannot be, or ends, fails the start with its rank, and the others are let go") {
  struct Defect {
    Numbers numbers;
    std::string text;
    bool ends_by_reset = false;
  };
  std::vector<Defect> const defects{
      {{-1}, "the connection of rank 0 brought -1 where 0 to 1 are allowed"},
      {{2}, "the connection of rank 0 brought 2 where 0 to 1 are allowed"},
      {{1, 2}, "the connection of rank 0 brought 2 where 0 to 1 are allowed"},
      {{0, 5}, "the connection of rank 0 brought 5 where 0 to 0 are allowed"},
      {{0, 0, 65536}, "the connection of rank 0 brought 65536 where 0 to 65535 are allowed"},
      {{0}, "the connection of rank 0 ended: its process was killed, crashed or gave up"},
      {{0}, "the connection of rank 0 ended: its process was killed, crashed or gave up", true}};
  for (auto const& [numbers, text, ends_by_reset] : defects) {
    CAPTURE(text);
    Tracking tracking{2};
    RabitWorker const other{*tracking.tracker, Rank{1}, "start"};
    {
      RabitWorker worker{*tracking.tracker, Rank{0}, "start"};
      (void)worker.numbers(7);
      for (auto const number : numbers) worker.say(number);
      if (text.find("ended") == std::string::npos) {
        CHECK(worker.is_closed());
      } else {
        CHECK(worker.numbers(2) == Numbers{0, 1});  // the tracker reads again now
        ends_by_reset ? worker.reset() : worker.close();
      }
    }
    CHECK(other.is_closed());
    CHECK(tracking.log.wait_for_error() == "bringing XGBoost's workers together: " + text);
    CHECK(tracking.tracker->error()->code() == Errc::worker_failed);
  }
}

TEST_CASE("when a worker dies while they are connected, one that waits for it is released") {
  Tracking tracking{2};
  RawListener const waiting;
  RabitWorker const first{*tracking.tracker, Rank{0}, "start"};
  {
    RabitWorker const second{*tracking.tracker, Rank{1}, "start"};
    (void)first.numbers(7);
    first.say(0);
    (void)first.numbers(2);
    first.say(0);
    first.say(SocketAddress{waiting.address()}.port());
    CHECK(first.is_closed());
  }
  CHECK(waiting.accept().is_closed());
  check_contains(tracking.log.wait_for_error(), "the connection of rank 1 ");
}

TEST_CASE("a worker that leaves or speaks before all are here fails the start") {
  for (bool const speaks : {false, true}) {
    Tracking tracking{3};
    RabitWorker const stays{*tracking.tracker, Rank{0}, "start"};
    RabitWorker other{*tracking.tracker, Rank{2}, "start"};
    if (speaks) {
      other.say(0);
    } else {
      other.reset();
    }
    CHECK(stays.is_closed());
    auto const text = tracking.log.wait_for_error();
    check_contains(text, "the connection of rank 2 ");
    if (speaks) check_contains(text, "brought something that nobody has asked for");
    // Who comes now is sent away at once.
    CHECK(RabitWorker{*tracking.tracker, Rank{1}, "start"}.is_closed());
    CHECK(tracking.log.wait_for_stranger("rank 1") == "rank 1 comes after the start has failed");
  }
}

TEST_CASE("a world size that differs fails the start, and its text has both") {
  Tracking tracking{2};
  RabitWorker const other{*tracking.tracker, Rank{0}, "start", 2};
  CHECK(RabitWorker{*tracking.tracker, Rank{1}, "start", 3}.is_closed());
  CHECK(other.is_closed());
  CHECK(tracking.log.wait_for_error() ==
        "bringing XGBoost's workers together: rank 1 says that there are 3 workers, and there are 2");
}

TEST_CASE("who comes a second time, asks for what is not there or does not know the secret is sent away") {
  Tracking tracking{2};
  RabitWorker const first{*tracking.tracker, Rank{0}, "start"};
  CHECK(RabitWorker{*tracking.tracker, Rank{0}, "start"}.is_closed());
  CHECK(tracking.log.wait_for_stranger("second") == "rank 0 comes a second time, and the first one keeps the place");
  CHECK(RabitWorker{*tracking.tracker, Rank{1}, "recover"}.is_closed());
  CHECK(tracking.log.wait_for_stranger("recover") == "rank 1 asks for 'recover', which this tracker does not know");
  for (auto const* const task : {"000001", "the-secret-000002", "the-secreT-000001", "NULL"}) {
    RawPeer const stranger{address_of(tracking.tracker->arguments())};
    stranger.send(greeting(task, "start"));
    CHECK(stranger.is_closed());
    check_contains(tracking.log.wait_for_stranger("no worker"), "tcp:127.0.0.1:");
    tracking.log.change([&] { tracking.log.strangers.clear(); });
  }
  // The first one has not noticed.
  RabitWorker const second{*tracking.tracker, Rank{1}, "start"};
  CHECK(first.number() == 0);
}

TEST_CASE("what a worker has the tracker print is passed on") {
  TrackerLog log;
  auto events = log.events();
  events.on_print = [&](std::string text) { log.change([&] { log.strangers.push_back(std::move(text)); }); };
  RabitTracker const tracker{{.world = WorldSize{1}}, events, "the-secret"};
  RabitWorker const worker{tracker, Rank{0}, "print", -1, "[0] loss 0.5"};
  CHECK(log.wait_for_stranger("loss") == "[0] loss 0.5");
}

TEST_CASE("a start that takes too long ends with the ranks that have not come, or with a hint at the network") {
  {
    Tracking tracking{12, {.start_limit = milliseconds{50}}};
    RabitWorker const worker{*tracking.tracker, Rank{1}, "start"};
    CHECK(worker.is_closed());
    check_contains(tracking.log.wait_for_error(),
                   " of 12 came within 50 ms; missing: rank 0, rank 2, rank 3, rank 4, rank 5, rank 6, rank 7, rank 8 "
                   "and 3 more; ");
  }
  Tracking tracking{1, {.start_limit = milliseconds{50}}};
  RabitWorker const worker{*tracking.tracker, Rank{0}, "start"};
  (void)worker.numbers(6);
  CHECK(worker.is_closed());
  check_contains(tracking.log.wait_for_error(), "not all were connected with each other within 50 ms; ");
}

TEST_CASE("a greeting that was changed at random is refused or understood the same in any pieces, and some are each") {
  std::mt19937_64 random{random_seed()};
  auto const below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  std::vector<Bytes> const seeds{greeting("the-secret-000001", "start"), greeting("t", "print", 3, "some text"),
                                 greeting(std::string(4096, 'x'), "shutdown", 7)};
  constexpr int rounds = 20'000;
  int complete = 0;
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    auto bytes = seeds[below(seeds.size())];
    for (auto changes = 1 + below(3); changes > 0; --changes) {
      auto const at = below(bytes.size());
      switch (below(4)) {
        case 0: bytes.resize(at + 1); break;
        case 1: bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), static_cast<std::byte>(random())); break;
        default: bytes[at] ^= static_cast<std::byte>(1U << below(8));
      }
    }
    // In the largest pieces, and in random ones.
    std::vector<std::string> outcomes;
    for (bool const whole : {true, false}) {
      RabitGreetingDecoder decoder;
      std::string outcome = "more is wanted";
      try {
        for (auto left = BytesView{bytes}; !left.empty() && !decoder.is_complete();) {
          REQUIRE(decoder.wanted_bytes() > 0);
          REQUIRE(decoder.wanted_bytes() <= RabitGreetingDecoder::longest_string_bytes);
          auto const most = std::min(left.size(), decoder.wanted_bytes());
          auto const size = whole ? most : 1 + below(most);
          decoder.feed(left.first(size));
          left = left.subspan(size);
        }
        if (decoder.is_complete()) {
          auto const& it = decoder.greeting();
          outcome = std::to_string(it.rank) + ' ' + std::to_string(it.world) + it.task_id + it.command + it.text;
          complete += whole ? 1 : 0;
        }
      } catch (Error const& error) {
        REQUIRE(error.code() == Errc::bad_message);
        outcome = error.what();
        refused += whole ? 1 : 0;
      }
      outcomes.push_back(outcome);
    }
    REQUIRE(outcomes[0] == outcomes[1]);
  }
  CHECK(complete > rounds / 100);
  CHECK(refused > rounds / 100);
  RabitGreetingDecoder decoder;
  CHECK(thrown_error([&] { decoder.feed(Bytes(5)); }) ==
        "bad_message: reading a rabit greeting: more bytes than a greeting has");
}
