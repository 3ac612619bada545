// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstddef>
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
#include <raytrain/core/inline.hpp>
#include <raytrain/core/kept_from_forks.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/socket_stream.hpp>

namespace raytrain {

RAYTRAIN_INLINE SocketStream::SocketStream(Executor& executor, int domain, int descriptor, std::string peer)
    : socket_{executor.context()}, peer_{std::move(peer)} {
  if (domain == AF_INET) {
    int const on = 1;  // A message leaves at once instead of waiting for the answer to the one before.
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  socket_.assign(asio::generic::stream_protocol{domain, 0}, descriptor);
  kept_ = detail::KeptFromForks{descriptor};
}

RAYTRAIN_INLINE auto SocketStream::try_write(BytesView bytes) noexcept -> std::size_t {
  auto const count = ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

RAYTRAIN_INLINE void SocketStream::end_writing() noexcept {
  std::error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
}

RAYTRAIN_INLINE void SocketStream::close() noexcept {
  kept_ = {};  // first: the number may be given anew at once
  std::error_code ignored;
  socket_.close(ignored);
}

}  // namespace raytrain
