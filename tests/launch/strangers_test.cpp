// SPDX-License-Identifier: Apache-2.0
// Whoever connects to a controller without being one of its ranks.
#include <raytrain/launch/control_client.hpp>
#include <raytrain/launch/control_server.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "../support/thrown_error.hpp"
#include "control_ends.hpp"

using namespace raytrain;
using namespace raytrain::testing;

namespace {

using std::chrono::milliseconds;

/// A rank that asks and is answered without an end while strangers come and go.
class PingPong {
 public:
  explicit PingPong(ControlServer::Options options) : server{std::move(options), events()} {
    asking_ = std::thread{[this] { ask(); }};
  }
  PingPong(PingPong const&) = delete;
  auto operator=(PingPong const&) -> PingPong& = delete;
  ~PingPong() { end(); }

  /// Returns when as many more questions are answered.
  void wait_for_answers(std::size_t count) {
    auto const before = answers();
    told_.wait([&] { return told_.messages.size() >= before + count; });
  }

  void end() {
    if (!asking_.joinable()) return;
    ended_ = true;
    asking_.join();
    CHECK(told_.lost.empty());
    CHECK(log.losses() == 0);
  }

  ServerLog log;
  ControlServer server;

 private:
  auto events() -> ControlServer::Events {
    auto events = log.events();
    events.on_message = [this](Rank rank, WorkerMessage&) {
      server.tell(rank, Stop{});
      return true;
    };
    return events;
  }

  auto answers() -> std::size_t {
    return told_.look([&] { return told_.messages.size(); });
  }

  void ask() {
    ControlClient client{client_of(server, Rank{0}), told_.events()};
    for (std::uint64_t number = 0; !ended_; ++number) {
      CHECK(client.send(Progress{Rank{0}, number, 0, {}}));
      told_.wait([&] { return told_.messages.size() > number; });
    }
  }

  ClientLog told_;
  std::atomic<bool> ended_{false};
  std::thread asking_;
};

/// Room for `count` more descriptors than there are; as many as are allowed where that is less.
auto raise_descriptor_limit(std::size_t count) -> std::size_t {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur, count + 300));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  return std::min<std::size_t>(count, limit.rlim_cur - 300);
}

auto open_descriptors() -> std::size_t {
  auto const count = std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
  return static_cast<std::size_t>(count) - 1;  // the listing's own
}

auto bytes_from(std::string_view text) -> Bytes {
  auto const bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

auto hello_of(Rank rank) -> detail::Handshake { return detail::make_hello(detail::random_nonce(), rank); }

}  // namespace

TEST_CASE("a stranger is closed and told of, whatever it sends, and a rank goes on undisturbed") {
  auto options = on_loopback(4);
  options.heartbeat_interval = milliseconds{20};
  options.handshake_timeout = milliseconds{100};
  PingPong talk{options};
  auto const address = talk.server.addresses().front();
  auto const hello = hello_of(Rank{1});

  std::vector<std::pair<Bytes, std::string>> const strangers{
      {bytes_from("GET / HTTP/1.1\r\n\r\n"), "sent something else than raytrain's handshake"},
      {bytes_from("r"), "sent 1 of the handshake's 64 bytes in 100 ms"},
      {{}, "sent 0 of the handshake's 64 bytes in 100 ms"},
      {{hello.begin(), hello.end() - 1}, "sent 31 of the handshake's 64 bytes in 100 ms"}};
  for (auto const& [bytes, text] : strangers) {
    RawPeer const peer{address};
    peer.send(bytes);
    CHECK(peer.read(1).empty());
    auto const told = talk.log.wait_for_stranger(text);
    check_contains(told, "tcp:127.0.0.1:");
  }
  std::vector<std::pair<std::size_t, std::string>> const after_hello{
      {0, "sent 32 of the handshake's 64 bytes in 100 ms"},
      {31, "sent 63 of the handshake's 64 bytes in 100 ms"},
      {32, "does not know the run's token"}};
  for (auto const& [bytes, text] : after_hello) {
    RawPeer const peer{address};
    auto const begin = peer.say_hello(hello);
    auto const wrong_proof = begin.proof(RunToken::random());
    peer.send(BytesView{wrong_proof}.first(bytes));
    CHECK(peer.read(1).empty());
    talk.log.wait_for_stranger(text);
  }
  RawPeer{address}.send(bytes_from("ray"));
  talk.log.wait_for_stranger(" left before the end of the handshake");
  talk.wait_for_answers(10);
  talk.end();
  CHECK(talk.log.strangers.size() == 8);
}

TEST_CASE("who has recorded a rank's handshake cannot use it") {
  PingPong talk{on_loopback(4)};
  auto const address = talk.server.addresses().front();
  auto const hello = hello_of(Rank{1});
  auto const proof = [&] {
    RawPeer const rank{address};
    auto const begin = rank.say_hello(hello);
    return begin.proof(talk.server.token());
  }();
  RawPeer const stranger{address};
  (void)stranger.say_hello(hello);
  stranger.send(proof);
  CHECK(stranger.read(1).empty());
  talk.log.wait_for_stranger("does not know the run's token");
}

TEST_CASE("who knows the token and is no rank of the run is told why") {
  PingPong talk{on_loopback(4)};
  talk.wait_for_answers(1);
  auto const address = talk.server.addresses().front();
  using Status = detail::HandshakeStatus;
  auto const nonce = detail::random_nonce();
  std::vector<std::tuple<detail::Handshake, Status, std::string>> const strangers{
      {hello_of(Rank{4}), Status::no_such_rank, "says that it is rank 4, and ranks 0 to 3 are expected"},
      {hello_of(Rank{0}), Status::rank_taken, "says that it is rank 0, which is connected already"},
      {detail::make_handshake(nonce, {.number = 1, .version = 99}), Status::other_version,
       "has protocol version 99, and this side has 12"}};
  for (auto const& [hello, status, text] : strangers) {
    RawPeer const peer{address};
    CHECK(peer.join(talk.server.token(), hello) == status);
    CHECK(peer.is_closed());
    talk.log.wait_for_stranger(text);
  }
  auto mine = client_of(talk.server, Rank{4});
  check_contains(thrown_error([&] {
                   ControlClient{mine, no_events()};
                 }),
                 "invalid_config: connecting rank 4 to its controller: the controller has no such rank");
  talk.wait_for_answers(10);
}

TEST_CASE("however many connect and say nothing, a rank in the middle of its handshake is not sent away") {
  auto options = on_loopback(1);
  options.max_strangers = 1;
  ServerLog log;
  ControlServer server{options, log.events()};
  RawPeer const rank{server.addresses().front()};
  auto const begin = rank.say_hello(hello_of(Rank{0}));
  for (int i = 0; i < 20; ++i) RawPeer{server.addresses().front()}.send(bytes_from("raytrain"));
  std::vector<RawPeer> silent;
  for (int i = 0; i < 20; ++i) silent.emplace_back(server.addresses().front());
  log.wait_for_stranger("did not end the handshake, and made way for others");
  rank.send(begin.proof(server.token()));
  CHECK(rank.read_answer(server.token(), begin) == detail::HandshakeStatus::accepted);
}

TEST_CASE("a server ends in order while strangers come, talk and go, and tells of none afterwards") {
  for (int round = 0; round < 40; ++round) {
    auto log = std::make_unique<ServerLog>();
    ControlServer server{on_loopback(2), log->events()};
    auto const address = server.addresses().front();
    ControlClient const client{client_of(server, Rank{0}), no_events()};
    std::vector<RawPeer> strangers;
    for (int i = 0; i < 30; ++i) {
      strangers.emplace_back(address);
      if (i % 3 == 0) strangers.back().send(bytes_from("something that is no handshake at all"));
      if (i % 3 == 1) strangers.back().send(hello_of(Rank{1}));
      if (i % 7 == 0) strangers.back().close();
    }
    server.close();
    log.reset();
  }
}

TEST_CASE("a thousand strangers at once cost few descriptors, delay no rank and keep no new one out") {
  auto const count = raise_descriptor_limit(1000);
  auto options = on_loopback(2);
  options.max_strangers = 16;
  PingPong talk{options};
  talk.wait_for_answers(10);
  auto const before = open_descriptors();
  std::vector<RawPeer> strangers;
  for (std::size_t i = 0; i < count; ++i) {
    strangers.emplace_back(talk.server.addresses().front());
    if (i % 3 == 0) strangers.back().send(bytes_from("ray"));
  }
  talk.wait_for_answers(100);
  {
    ControlClient client{client_of(talk.server, Rank{1}), no_events()};
    CHECK(client.send(Finished{Rank{1}, true}));
    // Its connection came behind all of theirs, so that the server has accepted all of them.
    CHECK(open_descriptors() < before + count + options.max_strangers + 20);
  }
  strangers.clear();
  talk.wait_for_answers(100);
  talk.end();
  talk.server.close();
  CHECK(talk.log.strangers.size() >= 9);
  CHECK(talk.log.strangers.size() < 30);
  check_contains(talk.log.strangers.back(), " more the last one: tcp:127.0.0.1:");
}

TEST_CASE("a server without descriptors waits for some, and meanwhile its ranks go on") {
  PingPong talk{on_loopback(2)};
  talk.wait_for_answers(10);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  // Descriptors are numbered without gaps here, so that exactly one more can be made: the stranger's own end.
  auto const lowest = ::dup(0);
  REQUIRE(lowest >= 0);
  ::close(lowest);
  auto tight = before;
  tight.rlim_cur = static_cast<rlim_t>(lowest) + 1;
  auto const begin = std::chrono::steady_clock::now();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
  {
    RawPeer const stranger{talk.server.addresses().front()};
    talk.log.wait([&] { return talk.log.strangers.size() >= 4; });
    CHECK(std::chrono::steady_clock::now() - begin > milliseconds{250});  // three pauses
    talk.wait_for_answers(20);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    ControlClient const client{client_of(talk.server, Rank{1}), no_events()};
  }
  CHECK(talk.log.look([&] { return talk.log.strangers.front(); }) ==
        "a connection cannot be accepted: Too many open files");
  talk.wait_for_answers(10);
}
