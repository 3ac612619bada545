// SPDX-License-Identifier: Apache-2.0
#include <raytrain/exec/sockets.hpp>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <doctest/doctest.h>
#include <asio/awaitable.hpp>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <raytrain/core/bytes.hpp>
#include <raytrain/exec/deadline.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/testing/manual_clock.hpp>

#include "../support/thrown_error.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

SocketAddress const any_port{"tcp:127.0.0.1:0"};

auto read_all(SocketStream& stream) -> asio::awaitable<std::string> {
  std::string text;
  Bytes buffer(1000);
  while (true) {
    auto const count = co_await stream.read_some(buffer);
    if (count == 0) break;
    text += text_of(BytesView{buffer}.first(count));
  }
  co_return text;
}

auto answer_one(SocketListener& listener, std::string& peer) -> asio::awaitable<void> {
  auto stream = co_await listener.accept();
  peer = stream.peer();
  auto const text = co_await read_all(stream);
  auto const answer = "you said " + text;
  auto const bytes = bytes_of(answer);
  co_await stream.write(bytes);
}

auto ask(Executor& executor, SocketAddress address, std::string question, std::string& answer)
    -> asio::awaitable<void> {
  auto stream = co_await SocketStream::connect(executor, address);
  auto const bytes = bytes_of(question);
  co_await stream.write(bytes);
  stream.end_writing();
  answer = co_await read_all(stream);
}

auto connect_only(Executor& executor, SocketAddress address, std::optional<SocketStream>& stream)
    -> asio::awaitable<void> {
  stream.emplace(co_await SocketStream::connect(executor, address));
}

auto accept_only(SocketListener& listener, std::optional<SocketStream>& stream) -> asio::awaitable<void> {
  stream.emplace(co_await listener.accept());
}

auto read_one(SocketStream& stream, std::string& outcome) -> asio::awaitable<void> {
  Bytes buffer(10);
  try {
    auto const count = co_await stream.read_some(buffer);
    outcome = std::to_string(count) + " bytes";
  } catch (std::system_error const& error) {
    outcome = error.code() == asio::error::operation_aborted ? "cancelled" : error.what();
  }
}

auto write_too_much(SocketStream& stream, std::string& outcome) -> asio::awaitable<void> {
  Bytes const bytes(std::size_t{64} << 20U);
  try {
    co_await stream.write(bytes);
    outcome = "written";
  } catch (std::system_error const& error) {
    outcome = error.code().message();
  }
}

/// Ends what waits in other coroutines, once they do.
auto end_soon(SocketStream* to_close, Scope& to_cancel) -> asio::awaitable<void> {
  for (int turn = 0; turn < 20; ++turn) co_await asio::post(asio::use_awaitable);
  if (to_close == nullptr) {
    to_cancel.cancel();
  } else {
    to_close->close();
    to_close->close();
  }
}

struct Pair {
  explicit Pair(Executor& executor, bool unix_socket) {
    SocketListener listener{executor};
    SocketListener tcp{executor, any_port};
    auto& used = unix_socket ? listener : tcp;
    Scope scope{executor};
    scope.spawn(accept_only(used, one));
    scope.spawn(connect_only(executor, used.address(), other));
    executor.run(scope.join());
  }
  std::optional<SocketStream> one;
  std::optional<SocketStream> other;
};

auto nothing() -> asio::awaitable<void> { co_return; }
auto fail() -> asio::awaitable<void> {
  throw std::runtime_error{"failed"};
  co_return;
}
auto wait_until(Timer& timer, Clock::TimePoint time) -> asio::awaitable<void> { co_await timer.wait_until(time); }
auto move_clock(testing::ManualClock& clock, std::chrono::seconds by) -> asio::awaitable<void> {
  clock.advance(by);
  co_return;
}
auto finish_into(Executor& executor, Clock::TimePoint deadline, asio::awaitable<void> work, int& finished)
    -> asio::awaitable<void> {
  bool const well = co_await finish_by(executor, deadline, std::move(work));
  finished = static_cast<int>(well);
}

}  // namespace

TEST_CASE("an address is read and written as text, and what is none is refused by name") {
  for (auto const* const text : {"tcp:10.0.0.5:41234", "tcp:0.0.0.0:0", "unix:/tmp/raytrain-abc/socket"}) {
    CHECK(SocketAddress{text}.text() == text);
  }
  CHECK(SocketAddress{"tcp:10.0.0.5:41234"}.port() == 41234);
  CHECK(thrown_error([] { return SocketAddress{"tcp:10.0.0:41234"}; }) ==
        "invalid_config: the socket address tcp:10.0.0:41234: \"10.0.0\" is not an IPv4 address; write "
        "tcp:10.0.0.5:41234 or unix:/path");
  for (auto const* const text : {"tcp:1.2.3.4:65536", "tcp:1.2.3.4:", "tcp:1.2.3.4:1x", "tcp:1.2.3.4:-1"}) {
    check_contains(thrown_error([&] { return SocketAddress{text}; }), "is not a port");
  }
  for (auto const* const text : {"", "tcp", "tcp:", "1.2.3.4:5", "tcp:12"}) {
    check_contains(thrown_error([&] { return SocketAddress{text}; }), "invalid_config: the socket address ");
  }
  std::string const longest = "unix:/" + std::string(106, 'a');
  CHECK(SocketAddress{longest}.text() == longest);
  check_contains(thrown_error([&] { return SocketAddress{longest + 'a'}; }),
                 "a path must have 1 to 107 characters (got 108)");
  check_contains(thrown_error([] { return SocketAddress{"unix:"}; }), "(got 0)");
}

TEST_CASE("bytes go both ways over TCP and over a Unix socket, up to the end of each direction") {
  for (bool const unix_socket : {false, true}) {
    SystemClock clock;
    Executor executor{clock};
    SocketListener unix_listener{executor};
    SocketListener tcp_listener{executor, any_port};
    auto& listener = unix_socket ? unix_listener : tcp_listener;
    std::string answer;
    std::string peer;
    std::string const question(300'000, 'q');
    Scope scope{executor};
    scope.spawn(answer_one(listener, peer));
    scope.spawn(ask(executor, listener.address(), question, answer));
    executor.run(scope.join());
    CHECK(answer == "you said " + question);
    CHECK(peer.starts_with(unix_socket ? "unix: process " + std::to_string(::getpid()) : "tcp:127.0.0.1:"));
  }
}

TEST_CASE("a Unix socket lies in a folder for this user alone, which goes away with the listener") {
  std::filesystem::path file;
  {
    SystemClock clock;
    Executor executor{clock};
    SocketListener const listener{executor};
    SocketListener const other{executor};
    file = listener.address().text().substr(5);
    CHECK(listener.address().is_unix());
    CHECK(listener.address().text() != other.address().text());
    CHECK(std::filesystem::is_socket(file));
    CHECK(std::filesystem::status(file.parent_path()).permissions() == std::filesystem::perms::owner_all);
  }
  CHECK_FALSE(std::filesystem::exists(file.parent_path()));
}

TEST_CASE("a port that is taken is an error that names it") {
  SystemClock clock;
  Executor executor{clock};
  SocketListener const listener{executor, any_port};
  check_contains(thrown_error([&] {
                   SocketListener{executor, listener.address()};
                 }),
                 "io: listening at " + listener.address().text() + ": Address already in use");
}

TEST_CASE("every socket is closed in programs that this process starts, and TCP sends at once") {
  SystemClock clock;
  Executor executor{clock};
  SocketListener const unix_listener{executor};
  SocketListener const tcp_listener{executor, any_port};
  Pair const tcp{executor, false};
  Pair const unix_pair{executor, true};
  int sockets = 0;
  int at_once = 0;
  for (int descriptor = 3; descriptor < 200; ++descriptor) {
    int domain = 0;
    socklen_t size_bytes = sizeof domain;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size_bytes) != 0) continue;
    ++sockets;
    CHECK((::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
    int no_delay = 0;
    if (domain == AF_INET) ::getsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &no_delay, &size_bytes);
    at_once += static_cast<int>(no_delay != 0);
  }
  CHECK(sockets >= 6);
  CHECK(at_once == 2);
}

TEST_CASE("an address at which nobody listens refuses a connection") {
  SystemClock clock;
  Executor executor{clock};
  auto listener = std::make_unique<SocketListener>(executor, any_port);
  auto const address = listener->address();
  listener.reset();
  std::optional<SocketStream> stream;
  CHECK_THROWS_WITH_AS(executor.run(connect_only(executor, address, stream)), "Connection refused", std::system_error);
}

TEST_CASE("a cancellation ends a read, a write and an accept, and so does close for the first two") {
  for (bool const unix_socket : {false, true}) {
    for (bool const by_close : {false, true}) {
      SystemClock clock;
      Executor executor{clock};
      Pair pair{executor, unix_socket};
      SocketListener listener{executor};
      std::string reading;
      std::string writing;
      std::optional<SocketStream> accepted;
      Scope scope{executor};
      scope.spawn(read_one(*pair.one, reading));
      scope.spawn(write_too_much(*pair.one, writing));
      if (!by_close) scope.spawn(accept_only(listener, accepted));
      scope.spawn(end_soon(by_close ? &*pair.one : nullptr, scope));
      executor.run(scope.join());
      CHECK(reading == "cancelled");
      CHECK_FALSE(writing.empty());
      CHECK(writing != "written");
      CHECK_FALSE(accepted.has_value());
    }
  }
}

TEST_CASE("writing to a connection that is gone is an error and no signal") {
  for (bool const unix_socket : {false, true}) {
    SystemClock clock;
    Executor executor{clock};
    Pair pair{executor, unix_socket};
    pair.other.reset();
    std::string writing;
    executor.run(write_too_much(*pair.one, writing));
    bool const known = writing == "Broken pipe" || writing == "Connection reset by peer";
    CHECK(known);
    std::string reading;
    executor.run(read_one(*pair.one, reading));
    CHECK(reading == "0 bytes");
  }
}

TEST_CASE("work that ends before its deadline is finished, and what it throws is passed on") {
  testing::ManualClock clock;
  Executor executor{clock};
  auto const deadline = clock.now() + std::chrono::seconds{5};
  CHECK(executor.run(finish_by(executor, deadline, nothing())));
  CHECK_THROWS_WITH_AS((void)executor.run(finish_by(executor, deadline, fail())), "failed", std::runtime_error);
}

TEST_CASE("work is cancelled when the clock reaches its deadline, and not before") {
  for (int const seconds : {4, 5}) {
    testing::ManualClock clock;
    Executor executor{clock};
    auto const deadline = clock.now() + std::chrono::seconds{5};
    Timer timer{executor};
    auto const work_ends = clock.now() + std::chrono::seconds{seconds == 4 ? 4 : 6};
    int finished = -1;
    Scope scope{executor};
    scope.spawn(finish_into(executor, deadline, wait_until(timer, work_ends), finished));
    scope.spawn(move_clock(clock, std::chrono::seconds{seconds}));
    executor.run(scope.join());
    CHECK(finished == static_cast<int>(seconds == 4));
  }
}

namespace {

// A connection of which this process closes one end while a forked copy of it lives; what the other end reads then.
auto read_beside_child(Executor& executor, std::string& outcome) -> asio::awaitable<void> {
  SocketListener listener{executor, any_port};
  auto const address = listener.address();
  std::optional<SocketStream> one;
  std::optional<SocketStream> other;
  Scope scope{executor};
  scope.spawn(connect_only(executor, address, one));
  scope.spawn(accept_only(listener, other));
  co_await scope.join();
  auto const child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  one->close();
  auto const deadline = executor.clock().now() + std::chrono::seconds{10};
  co_await finish_by(executor, deadline, read_one(*other, outcome));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace

TEST_CASE("a connection ends with the process that has it, also when a forked copy of that lives on") {
  SystemClock clock;
  Executor executor{clock};
  std::string outcome;
  executor.run(read_beside_child(executor, outcome));
  CHECK(outcome == "0 bytes");
}
