// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <asio/awaitable.hpp>
#include <asio/basic_stream_socket.hpp>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/exec/detail/event.hpp>
#include <raytrain/exec/executor.hpp>

namespace raytrain {

/// Where a stream socket listens: "tcp:10.0.0.5:41234" (IPv4) or "unix:/path".
class SocketAddress {
 public:
  /// Errors: `invalid_config` for a text that is no such address.
  explicit SocketAddress(std::string_view text);

  /// As the operating system has it.
  SocketAddress(sockaddr_storage const& address, socklen_t size_bytes)
      : address_{address}, size_bytes_{std::min<socklen_t>(size_bytes, sizeof address_)} {}

  [[nodiscard]] auto is_unix() const noexcept -> bool { return address_.ss_family == AF_UNIX; }
  [[nodiscard]] auto data() const noexcept -> sockaddr const* { return reinterpret_cast<sockaddr const*>(&address_); }
  [[nodiscard]] auto size_bytes() const noexcept -> socklen_t { return size_bytes_; }

  [[nodiscard]] auto text() const -> std::string;

  /// The port of a TCP address.
  [[nodiscard]] auto port() const -> std::uint16_t { return ntohs(internet().sin_port); }

 private:
  template <class Address>
  void keep(Address const& address) {
    static_assert(sizeof address <= sizeof address_);
    std::memcpy(&address_, &address, sizeof address);
    size_bytes_ = sizeof address;
  }

  [[nodiscard]] auto internet() const -> sockaddr_in const& { return reinterpret_cast<sockaddr_in const&>(address_); }

  sockaddr_storage address_{};
  socklen_t size_bytes_ = 0;
};

/// One end of a connection over TCP or a Unix socket. Programs that this process starts do not inherit it, nor do
/// forked copies of it, which would keep it open when this process is gone.
///
/// Threads: the executor's.
/// Cancel:  terminal, of everything that waits. `close` ends such waits as well, with an error.
/// Errors:  `std::system_error` with what the operating system said, `operation_aborted` after a cancellation.
class SocketStream {
 public:
  /// Takes over a stream socket that is connected, or that `connect` connects.
  SocketStream(Executor& executor, int descriptor, std::string peer);

  /// Who is at the other end, for people.
  [[nodiscard]] auto peer() const noexcept -> std::string const& { return peer_; }

  /// The process that has connected from the other end of a Unix socket; 0 for any other socket, and for a process
  /// that this one cannot see.
  [[nodiscard]] auto peer_process() -> ::pid_t;

  /// Waits for at least one byte; 0 when the other end writes no more.
  [[nodiscard("co_await the result")]] auto read_some(std::span<std::byte> room) -> asio::awaitable<std::size_t> {
    auto const state = co_await asio::this_coro::cancellation_state;
    detail::Event::throw_if_cancelled(state);
    auto const buffer = asio::buffer(room.data(), room.size());
    try {
      auto const count = co_await socket_.async_read_some(buffer, asio::use_awaitable);
      co_return count;
    } catch (std::system_error const& error) {
      if (error.code() != asio::error::eof) throw;
    }
    co_return 0;
  }

  /// Returns once the operating system has all of `bytes`, which stay where they are until then.
  [[nodiscard("co_await the result")]] auto write(BytesView bytes) -> asio::awaitable<void> {
    auto const state = co_await asio::this_coro::cancellation_state;
    detail::Event::throw_if_cancelled(state);
    auto const buffer = asio::buffer(bytes.data(), bytes.size());
    co_await asio::async_write(socket_, buffer, asio::use_awaitable);
  }

  /// Writes as much as the operating system takes at once, and says how much that was: nothing too when the connection
  /// is broken.
  ///
  /// Threads: any, while none other writes or closes.
  [[nodiscard]] auto try_write(BytesView bytes) noexcept -> std::size_t;

  /// The other end reads what has been written, and then an end.
  void end_writing() noexcept;

  /// Idempotent.
  void close() noexcept;

  /// Has no deadline of its own: see `finish_by`. `from` is the address of this end, port 0 for one that is free.
  [[nodiscard("co_await the result")]] static auto connect(Executor& executor, SocketAddress address,
                                                           std::optional<SocketAddress> from = std::nullopt)
      -> asio::awaitable<SocketStream> {
    auto const state = co_await asio::this_coro::cancellation_state;
    detail::Event::throw_if_cancelled(state);
    int const descriptor = ::socket(address.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) throw std::system_error{errno, std::generic_category()};
    SocketStream stream{executor, descriptor, address.text()};
    if (from && ::bind(descriptor, from->data(), from->size_bytes()) != 0) {
      throw std::system_error{errno, std::generic_category()};
    }
    asio::generic::stream_protocol::endpoint const endpoint{address.data(), address.size_bytes()};
    co_await stream.socket_.async_connect(endpoint, asio::use_awaitable);
    co_return std::move(stream);
  }

 private:
  asio::basic_stream_socket<asio::generic::stream_protocol> socket_;
  std::string peer_;
  detail::KeptFromForks kept_;
};

/// An endpoint that others connect to: a TCP port, or a Unix socket in a folder of its own that only this user may
/// enter. Destruction removes socket and folder, which a process that is killed leaves behind. Programs that this
/// process starts do not inherit it; a forked copy of this process ends by `_exit`, or it would remove them.
///
/// Threads: the executor's; also any one thread while the executor does not run.
/// Cancel:  terminal, of `accept`.
class SocketListener {
 public:
  /// Listens at a TCP address. Port 0: one that is free.
  ///
  /// Errors: `io` when the address is taken, or none of this host.
  SocketListener(Executor& executor, SocketAddress const& address);

  /// Listens at a new Unix socket in a new folder in the system's folder for temporary files.
  ///
  /// Errors: `io` when there is no room for one.
  explicit SocketListener(Executor& executor);

  SocketListener(SocketListener const&) = delete;
  auto operator=(SocketListener const&) -> SocketListener& = delete;
  ~SocketListener() { remove_folder(); }

  /// With the port that the system has chosen.
  [[nodiscard]] auto address() const -> SocketAddress;

  /// Waits for the next connection.
  ///
  /// Cancel: terminal; throws `std::system_error`, and no connection is lost.
  /// Errors: `std::system_error` while the system has no descriptor or no memory for it: wait before trying again.
  [[nodiscard("co_await the result")]] auto accept() -> asio::awaitable<SocketStream> {
    auto const state = co_await asio::this_coro::cancellation_state;
    detail::Event::throw_if_cancelled(state);
    while (true) {
      // First, so that many connections at once leave other coroutines their turns.
      co_await descriptor_.async_wait(asio::posix::descriptor_base::wait_read, asio::use_awaitable);
      sockaddr_storage from{};
      socklen_t size_bytes = sizeof from;
      // Not by Asio, which leaves a moment in which another thread's child inherits the descriptor.
      int const accepted = ::accept4(descriptor_number_, reinterpret_cast<sockaddr*>(&from), &size_bytes, SOCK_CLOEXEC);
      if (accepted >= 0) {
        SocketStream stream{executor_, accepted, peer_text(accepted, from, size_bytes)};
        co_return std::move(stream);
      }
      auto const error = errno;
      if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
        throw std::system_error{error, std::generic_category()};
      }
      // Anything else is over with the connection that is gone already.
    }
  }

 private:
  static constexpr auto socket_name = "/socket";

  void listen_at(SocketAddress const& address);

  [[noreturn]] static void refuse(SocketAddress const& address);

  /// For the path of a socket there are 107 characters, fewer than some folders for temporary files take.
  static auto new_folder() -> std::string;

  void remove_folder() const noexcept;

  static auto peer_text(int descriptor, sockaddr_storage const& from, socklen_t size_bytes) -> std::string;

  Executor& executor_;
  int descriptor_number_ = -1;  ///< Owned by `descriptor_`.
  asio::posix::stream_descriptor descriptor_;
  std::string folder_;  ///< A Unix socket's; else empty.
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/exec/sockets-inl.hpp>
#endif
