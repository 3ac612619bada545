// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/detail/control_outbox.hpp>

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>

#include <doctest/doctest.h>
#include <asio/awaitable.hpp>

#include <raytrain/core/bytes.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/exec/sockets.hpp>
#include <raytrain/launch/detail/control_frames.hpp>
#include <raytrain/testing/manual_clock.hpp>

#include "control_ends.hpp"

using namespace raytrain;
using namespace raytrain::testing;
using detail::ControlOutbox;

namespace {

constexpr std::chrono::seconds long_after{1};

auto filled(std::size_t size, int value) -> ControlOutbox::Frame {
  return std::make_shared<Bytes const>(size, static_cast<std::byte>(value));
}

/// An outbox whose other end is `peer`; nothing waits in it yet.
struct Ends {
  ManualClock clock;
  Executor executor{clock};
  ControlOutbox outbox{executor};
  std::array<int, 2> sockets = connected();
  SocketStream stream{executor, sockets[0], "peer"};
  RawPeer peer{sockets[1]};

  static auto connected() -> std::array<int, 2> {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    return ends;
  }

  /// What `act` does while the outbox writes and the executor's thread can do nothing else; then all is written.
  template <class Act>
  void run(Act const& act) {
    executor.run(write_during(*this, act));
  }

 private:
  template <class Act>
  static auto write_during(Ends& ends, Act const& act) -> asio::awaitable<void> {
    Scope scope{ends.executor};
    scope.spawn(ends.outbox.write_to(ends.stream));
    act();
    ends.outbox.close();
    co_await scope.join();
  }
};

}  // namespace

TEST_CASE("a frame that comes alone is written by who brings it, and one that follows closely waits") {
  Ends ends;
  ends.run([&] {
    ends.outbox.push(filled(10, 1));
    CHECK(*filled(10, 1) == ends.peer.read(10));
    CHECK(ends.outbox.bytes() == 0);
    ends.outbox.push(filled(20, 2));
    CHECK(ends.outbox.bytes() == 20);
    ends.clock.advance(long_after);
    ends.outbox.push(filled(30, 3));  // behind the one that waits
    CHECK(ends.outbox.bytes() == 50);
  });
  CHECK(*filled(20, 2) == ends.peer.read(20));
  CHECK(*filled(30, 3) == ends.peer.read(30));
  CHECK(detail::goodbye_frame() == ends.peer.read(100));
}

TEST_CASE("what the operating system does not take of a frame that comes alone waits") {
  Ends ends;
  std::size_t const size = std::size_t{8} << 20U;
  std::thread reader;
  Bytes received;
  ends.run([&] {
    ends.outbox.push(filled(size, 1));
    auto const waiting = ends.outbox.bytes();
    CHECK(waiting > 0);
    CHECK(waiting < size);
    reader = std::thread{[&] { received = ends.peer.read(size); }};
  });
  reader.join();
  CHECK(received == *filled(size, 1));
  CHECK(detail::goodbye_frame() == ends.peer.read(100));
}

TEST_CASE("frames wait before there is a connection, and none is taken after the close") {
  Ends ends;
  CHECK(ends.outbox.push(filled(10, 1)));
  CHECK(ends.outbox.bytes() == 10);
  ends.run([] {});
  CHECK_FALSE(ends.outbox.push(filled(10, 2)));
  CHECK(*filled(10, 1) == ends.peer.read(10));
  CHECK(detail::goodbye_frame() == ends.peer.read(100));
}
