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
#include <string>
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
    events.on_message = [this](Rank rank, Message& message) {
      server.tell(rank, message);
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

auto handshake_of(RunToken const& token, Rank rank) -> Bytes {
  auto const handshake = detail::client_handshake(token, rank);
  return {handshake.begin(), handshake.end()};
}

}  // namespace

TEST_CASE("a stranger is closed and told of, whatever it sends, and a rank goes on undisturbed") {
  auto options = on_loopback(4);
  options.heartbeat_interval = milliseconds{20};
  options.handshake_timeout = milliseconds{100};
  PingPong talk{options};
  auto const address = talk.server.addresses().front();
  auto const good = handshake_of(talk.server.token(), Rank{1});

  std::vector<std::pair<Bytes, std::string>> strangers{
      {bytes_from("GET / HTTP/1.1\r\n\r\n"), "sent something else than raytrain's handshake"},
      {bytes_from("r"), "sent 1 of the handshake's 32 bytes in 100 ms"},
      {{}, "sent 0 of the handshake's 32 bytes in 100 ms"},
      {{good.begin(), good.end() - 1}, "sent 31 of the handshake's 32 bytes in 100 ms"},
      {handshake_of(RunToken::random(), Rank{1}), "sent a wrong token"}};
  for (auto const& [bytes, text] : strangers) {
    RawPeer const peer{address};
    peer.send(bytes);
    CHECK(peer.read(1).empty());
    auto const told = talk.log.wait_for_stranger(text);
    check_contains(told, "tcp:127.0.0.1:");
  }
  talk.wait_for_answers(10);
  talk.end();
  CHECK(talk.log.strangers.size() == strangers.size());
}

TEST_CASE("who knows the token and is no rank of the run is told why") {
  PingPong talk{on_loopback(4)};
  talk.wait_for_answers(1);
  auto const address = talk.server.addresses().front();
  auto other_version = handshake_of(talk.server.token(), Rank{1});
  other_version[24] = std::byte{99};
  using Status = detail::HandshakeStatus;
  std::vector<std::tuple<Bytes, Status, std::string>> const strangers{
      {handshake_of(talk.server.token(), Rank{4}), Status::no_such_rank, "says that it is rank 4 of 4"},
      {handshake_of(talk.server.token(), Rank{0}), Status::rank_taken,
       "says that it is rank 0, which is connected already"},
      {other_version, Status::other_version, "has protocol version 99, and this side has 1"}};
  for (auto const& [bytes, status, text] : strangers) {
    RawPeer const peer{address};
    peer.send(bytes);
    auto const expected = detail::server_handshake(talk.server.token(), status);
    CHECK((peer.read(1000) == Bytes{expected.begin(), expected.end()}));
    talk.log.wait_for_stranger(text);
  }
  auto mine = client_of(talk.server, Rank{4});
  check_contains(thrown_error([&] {
                   ControlClient{mine, no_events()};
                 }),
                 "invalid_config: connecting rank 4 to its controller: the controller has no such rank");
  talk.wait_for_answers(10);
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
