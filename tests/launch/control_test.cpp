// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/control_client.hpp>
#include <raytrain/launch/control_server.hpp>

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>
#include <raytrain/message/codec.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "control_ends.hpp"

using namespace raytrain;
using namespace raytrain::testing;

namespace {

using std::chrono::milliseconds;

auto is_unix(std::string const& address) -> bool { return address.starts_with("unix:"); }

auto only(std::vector<std::string> addresses, bool unix_socket) -> std::vector<std::string> {
  std::erase_if(addresses, [&](std::string const& address) { return is_unix(address) != unix_socket; });
  REQUIRE(addresses.size() == 1);
  return addresses;
}

/// The `number`th message of a rank, with a text whose length follows from it.
auto numbered(Rank rank, std::uint64_t number, std::size_t text_bytes = 0) -> WorkerMessage {
  return Progress{rank, number, 0, std::string(text_bytes, 'x')};
}

/// The `number`th one to it.
auto numbered_answer(Rank rank, std::uint64_t number, std::size_t text_bytes = 0) -> ControllerMessage {
  return LeftBehind{{rank, Rank{static_cast<std::uint32_t>(number)}}, std::string(text_bytes, 'x')};
}

void check_numbered(std::vector<WorkerMessage> const& messages, Rank rank, std::size_t count) {
  CHECK(messages.size() == count);
  bool in_order = true;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    auto const& progress = std::get<Progress>(messages[i]);
    in_order = in_order && progress.rank == rank && progress.done == i;
  }
  CHECK(in_order);
}

void check_numbered(std::vector<ControllerMessage> const& messages, Rank rank, std::size_t count) {
  CHECK(messages.size() == count);
  bool in_order = true;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    std::vector<Rank> const expected{rank, Rank{static_cast<std::uint32_t>(i)}};
    in_order = in_order && std::get<LeftBehind>(messages[i]).ranks == expected;
  }
  CHECK(in_order);
}

}  // namespace

TEST_CASE("messages of eight clients arrive whole and in order, and so does what they are told") {
  auto const seed = random_seed();
  for (bool const unix_socket : {false, true}) {
    CAPTURE(unix_socket);
    std::uint32_t const world = 8;
    std::size_t const count = 400;
    auto options = on_loopback(world);
    options.unix_socket_too = true;
    ServerLog log;
    ControlServer server{options, log.events()};
    std::vector<ClientLog> told(world);
    std::vector<std::thread> workers;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      workers.emplace_back([&, rank] {
        std::mt19937_64 random{seed + rank};
        auto mine = client_of(server, Rank{rank});
        mine.addresses = only(mine.addresses, unix_socket);
        ControlClient client{mine, told[rank].events()};
        for (std::size_t i = 0; i < count; ++i) {
          CHECK(client.send(numbered(Rank{rank}, i, random() % 3000)));
        }
        check_numbered(told[rank].wait_for_messages(count), Rank{rank}, count);
        client.close();
        CHECK_FALSE(client.send(Finished{}));
      });
    }
    for (std::size_t i = 0; i < count; ++i) {
      for (std::uint32_t rank = 0; rank < world; ++rank) server.tell(Rank{rank}, numbered_answer(Rank{rank}, i));
    }
    for (auto& worker : workers) worker.join();
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      check_numbered(log.wait_for_messages(Rank{rank}, count), Rank{rank}, count);
    }
    server.close();
    CHECK(log.lost.empty());
    CHECK(log.strangers.empty());
  }
}

namespace {

/// The ends of a new connection: the server's and a process's.
auto connected_pair() -> std::pair<int, int> {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  return {ends[0], ends[1]};
}

auto client_with(ControlServer const& server, Rank rank, int descriptor) -> ControlClient::Options {
  ControlClient::Options options{.token = server.token()};
  options.descriptor = descriptor;
  options.rank = rank;
  return options;
}

}  // namespace

TEST_CASE("a server that does not listen adopts connections, and another one for a rank that is lost") {
  ServerLog log;
  ControlServer server{{.world = WorldSize{2}, .listens = false}, log.events()};
  CHECK(server.addresses().empty());
  server.tell(Rank{1}, numbered_answer(Rank{1}, 0));
  for (std::size_t life = 0; life < 3; ++life) {
    CAPTURE(life);
    auto const [here, there] = connected_pair();
    server.adopt(Rank{1}, here);
    server.tell(Rank{1}, numbered_answer(Rank{1}, life + 10));
    ClientLog told;
    auto client = std::make_unique<ControlClient>(client_with(server, Rank{1}, there), told.events());
    CHECK(client->send(numbered(Rank{1}, life, 10)));
    // What was told before belongs to the process before.
    auto const expected = std::vector<ControllerMessage>{numbered_answer(Rank{1}, life + 10)};
    CHECK(told.wait_for_messages(1) == expected);
    log.wait_for_messages(Rank{1}, life + 1);
    check_contains(thrown_error([&] { server.adopt(Rank{1}, connected_pair().first); }),
                   "invalid_call: ControlServer::adopt: rank 1 is connected already");
    ::shutdown(there, SHUT_RDWR);
    log.wait([&] { return log.lost.size() == life + 1; });
    told.wait_for_loss();
    client.reset();
  }
  CHECK(log.strangers.empty());
}

TEST_CASE("what the system does not take for a connection is an error of who hands it over, not the server's end") {
  ServerLog log;
  ControlServer server{{.world = WorldSize{1}, .listens = false}, log.events()};
  constexpr int closed = 1'000'000;
  check_contains(thrown_error([&] { server.adopt(Rank{0}, closed); }),
                 "io: taking over the connection to rank 0: Bad file descriptor; raise the limits");
  auto const [here, there] = connected_pair();
  server.adopt(Rank{0}, here);
  ::close(there);
}

TEST_CASE("a rank is lost whose adopted connection ends before its handshake, or is another rank's") {
  ServerLog log;
  ControlServer server{{.world = WorldSize{3}, .listens = false}, log.events()};
  auto const [here, there] = connected_pair();
  server.adopt(Rank{1}, here);
  ::close(there);
  CHECK(log.wait_for_loss() == std::pair{Rank{1}, std::string{"its connection left before the end of the handshake"}});
  auto const [second, other] = connected_pair();
  server.adopt(Rank{2}, second);
  check_contains(thrown_error([&, other = other] {
                   ControlClient{client_with(server, Rank{0}, other), no_events()};
                 }),
                 "invalid_config: connecting rank 0 to its controller: the controller has no such rank");
  log.wait([&] { return log.lost.size() == 2; });
  CHECK(log.lost[1] == std::pair{Rank{2}, std::string{"its connection says that it is rank 0"}});
  server.close();
  check_contains(thrown_error([&] { server.adopt(Rank{1}, connected_pair().first); }),
                 "invalid_call: ControlServer::adopt: the server is closed");
}

TEST_CASE("a rank for which too much waits before its handshake is lost once, and another process may come") {
  ServerLog log;
  ControlServer server{{.world = WorldSize{2}, .listens = false, .max_unwritten_bytes = 1000}, log.events()};
  auto const [here, there] = connected_pair();
  server.adopt(Rank{1}, here);
  server.tell(Rank{1}, numbered_answer(Rank{1}, 0, 2000));
  auto const [rank, why] = log.wait_for_loss();
  CHECK(rank == Rank{1});
  check_contains(why, "more than 1000 bytes wait for it");
  ::close(there);
  auto const [second, other] = connected_pair();
  server.adopt(Rank{1}, second);
  ClientLog told;
  ControlClient client{client_with(server, Rank{1}, other), told.events()};
  CHECK(client.send(numbered(Rank{1}, 0)));
  log.wait_for_messages(Rank{1}, 1);
  CHECK(log.losses() == 1);
  client.close();
}

TEST_CASE("the largest messages and many small ones pass in both directions") {
  ServerLog log;
  ControlServer server{on_loopback(1), log.events()};
  ClientLog told;
  ControlClient client{client_of(server, Rank{0}), told.events()};
  std::string const text((std::size_t{15} << 20U), 'y');
  WorkerMessage const large = Warning{Rank{0}, text};
  ControllerMessage const large_answer = LeftBehind{{}, text};
  std::size_t const small = 20'000;
  CHECK(client.send(large));
  server.tell_all(large_answer);
  for (std::size_t i = 0; i < small; ++i) {
    CHECK(client.send(Progress{Rank{0}, i, small, {}}));
    server.tell_all(RankReturned{Rank{0}, i});
  }
  auto const to_server = log.wait_for_messages(Rank{0}, small + 1);
  auto const to_client = told.wait_for_messages(small + 1);
  CHECK(to_server.size() == to_client.size());
  CHECK((to_server.front() == large));
  CHECK((to_client.front() == large_answer));
  for (std::size_t i = 0; i < small; ++i) {
    REQUIRE((to_server[i + 1] == WorkerMessage{Progress{Rank{0}, i, small, {}}}));
    REQUIRE((to_client[i + 1] == ControllerMessage{RankReturned{Rank{0}, i}}));
  }
}

TEST_CASE("while there is no room for a rank's messages it waits, is not lost, and others go on") {
  auto options = on_loopback(2);
  options.heartbeat_interval = milliseconds{20};
  options.silence_limit = milliseconds{500};
  ServerLog log;
  log.full[Rank{0}] = true;
  ControlServer server{options, log.events()};
  std::vector<ClientLog> told(2);
  std::vector<std::unique_ptr<ControlClient>> clients;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    auto mine = client_of(server, Rank{rank});
    mine.heartbeat_interval = milliseconds{20};
    mine.silence_limit = milliseconds{500};
    clients.push_back(std::make_unique<ControlClient>(mine, told[rank].events()));
  }
  std::size_t const count = 192;  // 48 MiB, more than any buffers on the way hold
  std::atomic<std::size_t> sent{0};
  std::thread sender{[&] {
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(clients[0]->send(numbered(Rank{0}, i, std::size_t{256} << 10U)));
      ++sent;
    }
  }};
  log.wait([&] { return log.refusals > 1500; });  // a millisecond each: longer than the silence limit
  CHECK(sent < count);
  for (std::size_t i = 0; i < 100; ++i) CHECK(clients[1]->send(numbered(Rank{1}, i)));
  check_numbered(log.wait_for_messages(Rank{1}, 100), Rank{1}, 100);
  CHECK(log.look([&] { return log.messages[Rank{0}].empty(); }));
  log.change([&] { log.full[Rank{0}] = false; });
  check_numbered(log.wait_for_messages(Rank{0}, count), Rank{0}, count);
  sender.join();
  CHECK(log.losses() == 0);
  for (auto& it : told) CHECK(it.look([&] { return it.lost.empty(); }));
}

TEST_CASE("what is told before a rank connects reaches it afterwards, before what is told later") {
  ServerLog log;
  ControlServer server{on_loopback(2), log.events()};
  for (std::size_t i = 0; i < 3; ++i) server.tell(Rank{1}, numbered_answer(Rank{1}, i));
  ClientLog told;
  ControlClient client{client_of(server, Rank{1}), told.events()};
  server.tell(Rank{1}, numbered_answer(Rank{1}, 3));
  check_numbered(told.wait_for_messages(4), Rank{1}, 4);
  check_contains(thrown_error([&] { server.tell(Rank{2}, Stop{}); }),
                 "invalid_call: ControlServer::tell: rank 2 is none of 0 to 1");
}

TEST_CASE("once every rank has connected nobody can any more, and its Unix socket is gone") {
  auto options = on_loopback(3);
  options.unix_socket_too = true;
  ServerLog log;
  ControlServer server{options, log.events()};
  std::filesystem::path const file{only(server.addresses(), true).front().substr(5)};
  std::vector<std::unique_ptr<ControlClient>> clients;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(std::filesystem::is_socket(file));
    clients.push_back(std::make_unique<ControlClient>(client_of(server, Rank{rank}), no_events()));
  }
  // The server hears of it only after it has ceased to listen.
  CHECK(clients.back()->send(numbered(Rank{2}, 0)));
  log.wait_for_messages(Rank{2}, 1);
  CHECK_FALSE(std::filesystem::exists(file.parent_path()));
  auto late = client_of(server, Rank{1});
  late.connect_limit = milliseconds{120};
  auto const error = thrown_error([&] { ControlClient{late, no_events()}; });
  check_contains(error, "(No such file or directory)");
  check_contains(error, "(Connection refused); see whether the controller still runs and expects this rank");
  for (std::uint32_t rank = 0; rank < 3; ++rank) CHECK(clients[rank]->send(numbered(Rank{rank}, 1)));
  for (std::uint32_t rank = 0; rank < 3; ++rank) log.wait_for_messages(Rank{rank}, 1);
  CHECK(log.strangers.empty());
}

TEST_CASE("a rank that lives in the server's own process has no place that another could take") {
  auto options = on_loopback(3);
  options.first_rank = Rank{1};
  ServerLog log;
  ControlServer server{options, log.events()};
  RawPeer const impostor{server.addresses().front()};
  auto const hello = detail::make_hello(detail::random_nonce(), Rank{0});
  CHECK(impostor.join(server.token(), hello) == detail::HandshakeStatus::no_such_rank);
  log.wait_for_stranger("says that it is rank 0, and ranks 1 to 2 are expected");
  check_contains(thrown_error([&] { server.tell(Rank{0}, Stop{}); }), "rank 0 is none of 1 to 2");
  std::vector<ClientLog> told(3);
  ControlClient one{client_of(server, Rank{1}), told[1].events()};
  ControlClient other{client_of(server, Rank{2}), told[2].events()};
  server.tell_all(numbered_answer(Rank{0}, 0));
  server.tell(Rank{2}, numbered_answer(Rank{0}, 1));
  check_numbered(told[1].wait_for_messages(1), Rank{0}, 1);
  check_numbered(told[2].wait_for_messages(2), Rank{0}, 2);
}

TEST_CASE("close writes what was told and sent before, and neither end takes the other for lost") {
  ServerLog log;
  std::size_t const count = 2000;
  {
    ControlServer server{on_loopback(1), log.events()};
    ClientLog told;
    ControlClient client{client_of(server, Rank{0}), told.events()};
    for (std::size_t i = 0; i < count; ++i) server.tell_all(numbered_answer(Rank{0}, i, 1000));
    server.close();
    server.close();
    check_numbered(told.wait_for_messages(count), Rank{0}, count);
    CHECK(told.wait_for_loss() == "the connection was closed by the controller");
    CHECK_FALSE(client.send(Finished{}));
    server.tell_all(Stop{});
  }
  ControlServer server{on_loopback(1), log.events()};
  ClientLog told;
  {
    ControlClient client{client_of(server, Rank{0}), told.events()};
    for (std::size_t i = 0; i < count; ++i) CHECK(client.send(numbered(Rank{0}, i, 1000)));
  }
  // The client has waited for the server, which has therefore called every event.
  check_numbered(log.look([&] { return log.messages[Rank{0}]; }), Rank{0}, count);
  CHECK(log.losses() == 0);
  CHECK(told.lost.empty());
}

TEST_CASE("close inside an event is refused, at both ends") {
  std::string at_server;
  std::string at_client;
  ControlServer* the_server = nullptr;
  ControlClient* the_client = nullptr;
  ServerLog log;
  ClientLog told;
  auto server_events = log.events();
  server_events.on_message = [&](Rank, WorkerMessage&) {
    at_server = thrown_error([&] { the_server->close(); });
    the_server->tell(Rank{0}, Stop{});
    return true;
  };
  auto client_events = told.events();
  client_events.on_message = [&, next = client_events.on_message](ControllerMessage message) {
    at_client = thrown_error([&] { the_client->close(); });
    next(std::move(message));
  };
  ControlServer server{on_loopback(1), server_events};
  the_server = &server;
  ControlClient client{client_of(server, Rank{0}), client_events};
  the_client = &client;
  CHECK(client.send(Finished{Rank{0}, false}));
  told.wait_for_messages(1);
  check_contains(at_server, "invalid_call: ControlServer::close: called inside an event");
  check_contains(at_client, "invalid_call: ControlClient::close: called inside an event");
}

TEST_CASE("a Unix socket is tried before TCP, and close leaves neither its file nor its folder") {
  auto options = on_loopback(1);
  options.unix_socket_too = true;
  ServerLog log;
  ControlServer server{options, log.events()};
  auto const unix_address = only(server.addresses(), true).front();
  std::filesystem::path const file{unix_address.substr(5)};
  CHECK(std::filesystem::is_socket(file));
  CHECK(std::filesystem::status(file.parent_path()).permissions() == std::filesystem::perms::owner_all);
  {
    auto mine = client_of(server, Rank{0});
    RawListener const tcp;
    mine.addresses = {tcp.address(), unix_address};
    ControlClient const client{mine, no_events()};
    CHECK_FALSE(tcp.has_visitor());
  }
  server.close();
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK_FALSE(std::filesystem::exists(file.parent_path()));
}

TEST_CASE("a rank that is killed is lost at once, behind what it has sent") {
  ServerLog log;
  ControlServer server{on_loopback(1), log.events()};
  RawPeer peer{server.addresses().front()};
  peer.shake_hands(server.token(), Rank{0});
  peer.send(encode(Warning{Rank{0}, "here"}));
  // The child of a process with threads may do little: it only holds the connection.
  auto const child = ::fork();
  REQUIRE(child >= 0);
  while (child == 0) ::pause();
  peer.close();
  log.wait_for_messages(Rank{0}, 1);
  ::kill(child, SIGKILL);
  auto const [rank, why] = log.wait_for_loss();
  ::waitpid(child, nullptr, 0);
  CHECK(rank == Rank{0});
  // The system resets the connection of a process that has not read all.
  check_contains(why, "its process was killed");
}

TEST_CASE("of somebody who resets the connection before the end of the handshake nothing is said that is not known") {
  ServerLog log;
  ControlServer server{on_loopback(2), log.events()};
  RawPeer peer{server.addresses().front()};
  peer.send(BytesView{detail::make_hello(detail::random_nonce(), Rank{0})}.first(8));
  peer.reset();
  auto const text = log.wait_for_stranger("left before the end of the handshake");
  CHECK(text.find("process") == std::string::npos);
}

TEST_CASE("a rank whose connection is reset is lost, and cannot come back") {
  ServerLog log;
  ControlServer server{on_loopback(2), log.events()};
  RawPeer peer{server.addresses().front()};
  peer.shake_hands(server.token(), Rank{1});
  peer.reset();
  auto const [rank, why] = log.wait_for_loss();
  CHECK(rank == Rank{1});
  CHECK(why ==
        "its connection broke (Connection reset by peer): its process was killed or crashed, or its host is cut off");
  CHECK(thrown_error([&] {
          ControlClient{client_of(server, Rank{1}), no_events()};
        }) ==
        "invalid_config: connecting rank 1 to its controller: the controller has or had a worker of this rank already; "
        "give each worker a rank of its own, and start it once");
  log.wait_for_stranger("says that it is rank 1, whose connection has ended");
}

TEST_CASE("a rank that says nothing is lost after the silence limit, and one that only sends heartbeats is not") {
  auto options = on_loopback(2);
  options.heartbeat_interval = milliseconds{20};
  options.silence_limit = milliseconds{300};
  ServerLog log;
  ControlServer server{options, log.events()};
  auto mine = client_of(server, Rank{0});
  mine.heartbeat_interval = milliseconds{20};
  ControlClient client{mine, no_events()};
  RawPeer silent{server.addresses().front()};
  silent.shake_hands(server.token(), Rank{1});
  auto const [rank, why] = log.wait_for_loss();
  CHECK(rank == Rank{1});
  CHECK(why == "its connection brought nothing for more than 300 ms: its process stands still, or its host is cut off");
  CHECK(silent.is_closed());
  CHECK(client.send(numbered(Rank{0}, 0)));
  log.wait_for_messages(Rank{0}, 1);
  CHECK(log.losses() == 1);
}

TEST_CASE("a rank that does not read is lost once too much waits for it, connected or not") {
  auto options = on_loopback(2);
  options.max_unwritten_bytes = std::size_t{1} << 20U;
  ServerLog log;
  ControlServer server{options, log.events()};
  RawPeer peer{server.addresses().front()};
  peer.shake_hands(server.token(), Rank{0});
  ControllerMessage const large = LeftBehind{{}, std::string(std::size_t{256} << 10U, 'z')};
  for (int i = 0; i < 200 && log.losses() == 0; ++i) server.tell(Rank{0}, large);
  auto const expected =
      "its connection was given up: more than 1048576 bytes wait for it, which its process does not read";
  CHECK((log.wait_for_loss() == std::pair{Rank{0}, std::string{expected}}));
  for (int i = 0; i < 10; ++i) server.tell(Rank{1}, large);
  log.wait([&] { return log.lost.size() == 2; });
  CHECK((log.lost.back() == std::pair{Rank{1}, std::string{expected}}));
}

TEST_CASE("a rank that reads may be told far more than may wait") {
  auto options = on_loopback(1);
  options.max_unwritten_bytes = std::size_t{1} << 20U;
  ServerLog log;
  ControlServer server{options, log.events()};
  ClientLog told;
  ControlClient client{client_of(server, Rank{0}), told.events()};
  for (std::size_t i = 0; i < 40; ++i) {
    server.tell(Rank{0}, numbered_answer(Rank{0}, i, std::size_t{256} << 10U));
    told.wait_for_messages(i + 1);
  }
  check_numbered(told.wait_for_messages(40), Rank{0}, 40);
  CHECK(log.losses() == 0);
}

TEST_CASE("a rank that sends what is no message is lost with the decoder's words") {
  ServerLog log;
  ControlServer server{on_loopback(3), log.events()};
  std::vector<std::pair<Bytes, std::string>> const rubbish{
      {{std::byte{2}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{protocol_version}, std::byte{77}},
       "its connection brought what is no message: its kind is 77, which a controller sends"},
      {{std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}},
       "its connection brought what is no message: its length is 4294967295 bytes, more than 16777216"},
      {{std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0x11}},
       "its connection brought what is no message: it has protocol version 17, and this side has 12"}};
  for (std::size_t i = 0; i < rubbish.size(); ++i) {
    Rank const rank{static_cast<std::uint32_t>(i)};
    RawPeer peer{server.addresses().front()};
    peer.shake_hands(server.token(), rank);
    peer.send(encode(Warning{rank, "still fine"}));
    peer.send(rubbish[i].first);
    CHECK(peer.is_closed());
    log.wait([&] { return log.lost.size() == i + 1; });
    CHECK((log.lost.back() == std::pair{rank, rubbish[i].second}));
    CHECK(log.wait_for_messages(rank, 1).size() == 1);
  }
}

TEST_CASE("a rank that speaks for another one, or as the controller, is lost and not heard") {
  ServerLog log;
  auto const as_another = "its connection brought a message that is not its rank's own";
  std::vector<std::pair<Bytes, std::string>> const wrong{
      {encode(Warning{Rank{9}, "as another"}), as_another},
      {encode(Finished{Rank{0}, false}), as_another},
      {encode(Failed{ErrorInfo{Errc::io, "", "as nobody"}}), as_another},
      {encode(Stop{true}), "its connection brought what is no message: its kind is 64, which a controller sends"},
      {encode(RankReturned{Rank{4}}),
       "its connection brought what is no message: its kind is 67, which a controller sends"}};
  ControlServer server{on_loopback(5), log.events()};
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    Rank const rank{static_cast<std::uint32_t>(i)};
    RawPeer peer{server.addresses().front()};
    peer.shake_hands(server.token(), rank);
    peer.send(encode(Warning{rank, "as itself"}));
    peer.send(wrong[i].first);
    peer.send(encode(Warning{rank, "afterwards"}));
    CHECK(peer.is_closed());
    log.wait([&] { return log.lost.size() == i + 1; });
    CHECK(log.lost.back().first == rank);
    CHECK(log.lost.back().second == wrong[i].second);
    CHECK(log.wait_for_messages(rank, 1).size() == 1);
  }
}

TEST_CASE("a client that is told what only workers say has lost its controller, and does not hear it") {
  RunToken const token = RunToken::random();
  RawListener listener;
  std::thread controller{[&] {
    auto peer = listener.accept();
    peer.accept_hands(token);
    peer.send(encode(Stop{}));
    peer.send(encode(Finished{Rank{0}, false}));
    CHECK(peer.is_closed());
  }};
  ClientLog told;
  ControlClient client{{.addresses = {listener.address()}, .token = token}, told.events()};
  check_contains(told.wait_for_loss(), "brought what is no message: its kind is 6, which a worker sends");
  CHECK((told.wait_for_messages(1) == std::vector<ControllerMessage>{Stop{}}));
  controller.join();
}

TEST_CASE("a client whose controller is gone or silent says so, and sends nothing more") {
  RunToken const token = RunToken::random();
  for (bool const silent : {false, true}) {
    RawListener listener;
    std::thread controller{[&] {
      auto peer = listener.accept();
      peer.accept_hands(token);
      peer.send(encode(CheckpointSettled{CheckpointOrdinal{7}, {}}));
      if (silent) CHECK(peer.is_closed());
    }};
    ClientLog told;
    ControlClient::Options mine{.addresses = {listener.address()}, .token = token};
    mine.heartbeat_interval = milliseconds{20};
    mine.silence_limit = milliseconds{200};
    ControlClient client{mine, told.events()};
    auto const why = told.wait_for_loss();
    check_contains(why, silent ? "the connection brought nothing for more than 200 ms" : "the connection ");
    if (!silent) CHECK(why.find("brought") == std::string::npos);
    CHECK_FALSE(client.send(Finished{}));
    CHECK((told.wait_for_messages(1) == std::vector<ControllerMessage>{CheckpointSettled{CheckpointOrdinal{7}, {}}}));
    controller.join();
  }
}

TEST_CASE("send waits while too much is not written, and goes on with false when the connection is lost") {
  RunToken const token = RunToken::random();
  RawListener listener;
  std::atomic<int> sent{0};
  std::thread controller{[&] {
    auto peer = listener.accept();
    peer.accept_hands(token);
    // Reads nothing: what is sent fills the buffers on the way. The client itself keeps the first 16.
    for (int seen = sent; seen < 16; seen = sent) sent.wait(seen);
    peer.reset();
  }};
  ClientLog told;
  ControlClient client{{.addresses = {listener.address()}, .token = token}, told.events()};
  WorkerMessage const large = Warning{Rank{0}, std::string(std::size_t{64} << 10U, 'w')};
  int accepted = 0;
  while (client.send(large) && accepted < 1000) {
    ++accepted;
    ++sent;
    sent.notify_one();
  }
  CHECK(accepted < 1000);
  check_contains(told.wait_for_loss(), "the connection ");
  controller.join();
}

TEST_CASE("an address at which nobody listens is an error that names it") {
  std::string address;
  {
    RawListener const listener;
    address = listener.address();
  }
  ControlClient::Options mine{.addresses = {address, "unix:/nonexistent/raytrain"}, .token = RunToken::random()};
  mine.rank = Rank{3};
  mine.connect_limit = milliseconds{120};
  CHECK(thrown_error([&] {
          ControlClient{mine, no_events()};
        }) ==
        "io: connecting rank 3 to its controller: no success within 120 ms at unix:/nonexistent/raytrain (No such file "
        "or directory), " +
            address +
            " (Connection refused); see whether the controller still runs and expects this rank, and whether this host "
            "may connect to that address and port");
  mine.addresses = {"udp:127.0.0.1:1"};
  check_contains(thrown_error([&] {
                   ControlClient{mine, no_events()};
                 }),
                 "invalid_config: the socket address udp:127.0.0.1:1: it begins with neither tcp: nor unix:");
  mine.addresses = {};
  check_contains(thrown_error([&] { ControlClient{mine, no_events()}; }), "no address is given");
}

TEST_CASE("what listens and is not this run's controller is an error that says what it did") {
  RunToken const token = RunToken::random();
  RawListener listener;
  ControlClient::Options mine{.addresses = {listener.address()}, .token = token};
  mine.connect_limit = milliseconds{150};
  SUBCASE("it never answers") {
    auto const error = thrown_error([&] { ControlClient{mine, no_events()}; });
    check_contains(error, "timed_out: ");
    check_contains(error, listener.address() + " (connected, and nothing answers the handshake)");
  }
  SUBCASE("it answers with what the client itself has sent") {
    std::atomic<bool> done{false};
    std::thread echo{[&] {
      while (!done) {
        auto peer = listener.accept();
        for (int part = 0; part < 2; ++part) peer.send(peer.read(detail::handshake_bytes));
      }
    }};
    auto const error = thrown_error([&] { ControlClient{mine, no_events()}; });
    done = true;
    { RawPeer const last{listener.address()}; }
    echo.join();
    check_contains(error, "io: ");
    check_contains(error, listener.address() + " (connected, and what answers is not this run's controller)");
  }
  SUBCASE("it belongs to another run") {
    ServerLog log;
    ControlServer server{on_loopback(1), log.events()};
    mine.addresses = server.addresses();
    auto const error = thrown_error([&] { ControlClient{mine, no_events()}; });
    check_contains(error, "(connected, and refused without a word: it may belong to another run)");
    log.wait_for_stranger("does not know the run's token");
  }
}

TEST_CASE("an address that cannot be listened at is an error that says why") {
  ServerLog log;
  ControlServer server{on_loopback(1), log.events()};
  auto options = on_loopback(1);
  options.port = SocketAddress{server.addresses().front()}.port();
  CHECK(thrown_error([&] {
          ControlServer{options, log.events()};
        }) == "io: listening at " + server.addresses().front() +
                  ": Address already in use; name an IPv4 address of this host, and a port that is free (0: any)");
  options.port = 0;
  options.interface_address = "203.0.113.1";
  check_contains(thrown_error([&] {
                   ControlServer{options, log.events()};
                 }),
                 "io: listening at tcp:203.0.113.1:0: Cannot assign requested address");
  options.interface_address = "localhost";
  check_contains(thrown_error([&] { ControlServer{options, log.events()}; }), "\"localhost\" is not an IPv4 address");
}

TEST_CASE("options that cannot work are refused") {
  auto const refused = [](auto change) {
    auto options = on_loopback(1);
    change(options);
    return thrown_error([&] { ControlServer{options, ServerLog{}.events()}; });
  };
  check_contains(refused([](auto& options) { options.world = WorldSize{0}; }),
                 "invalid_config: ControlServer::Options::world: must be at least 1 (got 0)");
  check_contains(refused([](auto& options) { options.first_rank = Rank{1}; }),
                 "Options::first_rank: must be below the world's size, 1 (got 1)");
  check_contains(refused([](auto& options) { options.max_strangers = 0; }),
                 "Options::max_strangers: must be at least 1");
  check_contains(refused([](auto& options) { options.heartbeat_interval = milliseconds{0}; }),
                 "Options::heartbeat_interval: must be positive (got 0 ms)");
  check_contains(refused([](auto& options) { options.silence_limit = milliseconds{1000}; }),
                 "Options::silence_limit: must be longer than heartbeat_interval, 1000 ms (got 1000 ms)");
}

TEST_CASE("a server that listens at every address says one at which it can be reached") {
  ServerLog log;
  ControlServer server{{.world = WorldSize{1}}, log.events()};
  CHECK(server.addresses().size() == 1);
  ControlClient client{client_of(server, Rank{0}), no_events()};
  CHECK(client.send(numbered(Rank{0}, 0)));
  check_numbered(log.wait_for_messages(Rank{0}, 1), Rank{0}, 1);
}
