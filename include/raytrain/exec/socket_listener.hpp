// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <asio/awaitable.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <raytrain/exec/detail/event.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/socket_address.hpp>
#include <raytrain/exec/socket_stream.hpp>

namespace raytrain {

/// A place where others connect to: a TCP port, or a Unix socket in a folder of its own that only this user may enter.
/// Destruction removes socket and folder, which a process that is killed leaves behind. Programs that this process
/// starts do not inherit it; a forked copy of this process ends by `_exit`, or it would remove them.
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
        SocketStream stream{executor_, domain_, accepted, peer_text(accepted, from, size_bytes)};
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
  int domain_ = 0;
  int descriptor_number_ = -1;  ///< Owned by `descriptor_`.
  asio::posix::stream_descriptor descriptor_;
  std::string folder_;  ///< A Unix socket's; else empty.
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/exec/socket_listener-inl.hpp>
#endif
