// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <asio/awaitable.hpp>
#include <asio/basic_stream_socket.hpp>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/kept_from_forks.hpp>
#include <raytrain/exec/detail/event.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/socket_address.hpp>

namespace raytrain {

/// One end of a connection over TCP or a Unix socket. Programs that this process starts do not inherit it, nor do
/// forked copies of it, which would keep it open when this process is gone.
///
/// Threads: the executor's.
/// Cancel:  terminal, of everything that waits. `close` ends such waits as well, with an error.
/// Errors:  `std::system_error` with what the operating system said, `operation_aborted` after a cancellation.
class SocketStream {
 public:
  /// Takes over a stream socket that is connected, or that `connect` connects.
  SocketStream(Executor& executor, int domain, int descriptor, std::string peer);

  /// Who is at the other end, for people.
  [[nodiscard]] auto peer() const noexcept -> std::string const& { return peer_; }

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
    int const domain = address.data()->sa_family;
    int const descriptor = ::socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) throw std::system_error{errno, std::generic_category()};
    SocketStream stream{executor, domain, descriptor, address.text()};
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

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/exec/socket_stream-inl.hpp>
#endif
