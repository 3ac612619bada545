// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
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
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/sockets.hpp>

namespace raytrain {

RAYTRAIN_INLINE SocketAddress::SocketAddress(std::string_view text) {
  auto const refuse = [text](std::string const& happened) {
    throw Error{Errc::invalid_config, "the socket address " + std::string{text}, happened,
                "write tcp:10.0.0.5:41234 or unix:/path"};
  };
  if (text.starts_with("unix:")) {
    auto const path = text.substr(5);
    sockaddr_un address{};
    if (path.empty() || path.size() >= sizeof address.sun_path) {
      refuse("a path must have 1 to " + std::to_string(sizeof address.sun_path - 1) + " characters (got " +
             std::to_string(path.size()) + ")");
    }
    address.sun_family = AF_UNIX;
    std::ranges::copy(path, address.sun_path);
    keep(address);
    return;
  }
  auto const colon = text.rfind(':');
  if (!text.starts_with("tcp:") || colon < 4) refuse("it begins with neither tcp: nor unix:, or has no port");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  std::string const ip{text.substr(4, colon - 4)};
  if (inet_pton(AF_INET, ip.c_str(), &address.sin_addr) != 1) refuse('"' + ip + "\" is not an IPv4 address");
  std::uint16_t port = 0;
  auto const digits = text.substr(colon + 1);
  auto const [end, error] = std::from_chars(digits.begin(), digits.end(), port);
  if (error != std::errc{} || end != digits.end()) refuse('"' + std::string{digits} + "\" is not a port");
  address.sin_port = htons(port);
  keep(address);
}

RAYTRAIN_INLINE auto SocketAddress::text() const -> std::string {
  if (is_unix()) {
    // The unconnected end of a Unix socket has no path, which a size tells.
    sockaddr_un address{};
    std::memcpy(&address, &address_, std::min<std::size_t>(size_bytes_, sizeof address - 1));
    return std::string{"unix:"} + address.sun_path;
  }
  std::array<char, INET_ADDRSTRLEN> ip{};
  inet_ntop(AF_INET, &internet().sin_addr, ip.data(), ip.size());
  return std::string{"tcp:"} + ip.data() + ':' + std::to_string(port());
}

RAYTRAIN_INLINE SocketStream::SocketStream(Executor& executor, int descriptor, std::string peer)
    : socket_{executor.context()}, peer_{std::move(peer)} {
  FileDescriptor taken{descriptor};
  int domain = AF_UNSPEC;
  socklen_t size_bytes = sizeof domain;
  ::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size_bytes);
  if (domain == AF_INET) {
    int const on = 1;  // A message leaves at once instead of waiting for the answer to the one before.
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  socket_.assign(asio::generic::stream_protocol{domain, 0}, descriptor);
  (void)taken.release();
  kept_ = detail::KeptFromForks{descriptor};
}

RAYTRAIN_INLINE auto SocketStream::peer_process() -> ::pid_t {
  ::ucred who{};
  ::socklen_t size = sizeof who;
  if (::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return 0;
  return who.pid;
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

RAYTRAIN_INLINE SocketListener::SocketListener(Executor& executor, SocketAddress const& address)
    : executor_{executor}, descriptor_{executor.context()} {
  listen_at(address);
}

RAYTRAIN_INLINE SocketListener::SocketListener(Executor& executor)
    : executor_{executor}, descriptor_{executor.context()} {
  folder_ = new_folder();
  try {
    listen_at(SocketAddress{"unix:" + folder_ + socket_name});
  } catch (...) {
    remove_folder();
    throw;
  }
}

RAYTRAIN_INLINE auto SocketListener::address() const -> SocketAddress {
  sockaddr_storage address{};
  socklen_t size_bytes = sizeof address;
  ::getsockname(descriptor_number_, reinterpret_cast<sockaddr*>(&address), &size_bytes);
  return {address, size_bytes};
}

RAYTRAIN_INLINE void SocketListener::listen_at(SocketAddress const& address) {
  FileDescriptor taken{::socket(address.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!taken.is_open()) refuse(address);
  descriptor_.assign(taken.get());
  descriptor_number_ = taken.release();
  int const on = 1;
  ::setsockopt(descriptor_number_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(descriptor_number_, address.data(), address.size_bytes()) != 0) refuse(address);
  if (::listen(descriptor_number_, SOMAXCONN) != 0) refuse(address);
}

RAYTRAIN_INLINE void SocketListener::refuse(SocketAddress const& address) {
  std::error_code const error{errno, std::generic_category()};
  throw Error{Errc::io, "listening at " + address.text(), error.message(),
              address.is_unix() ? "set TMPDIR to a folder that can be written"
                                : "name an IPv4 address of this host, and a port that is free (0: any)"};
}

RAYTRAIN_INLINE auto SocketListener::new_folder() -> std::string {
  std::error_code error;
  auto base = std::filesystem::temp_directory_path(error);
  std::string const name = "raytrain-XXXXXX";
  if (error ||
      base.native().size() + 1 + name.size() + std::string{socket_name}.size() >= sizeof(sockaddr_un::sun_path)) {
    base = "/tmp";
  }
  auto path = (base / name).string();
  if (::mkdtemp(path.data()) == nullptr) {
    std::error_code const failed{errno, std::generic_category()};
    throw Error{Errc::io, "making a folder for a Unix socket in " + base.string(), failed.message(),
                "set TMPDIR to a folder that can be written"};
  }
  return path;
}

RAYTRAIN_INLINE void SocketListener::remove_folder() const noexcept {
  if (folder_.empty()) return;
  ::unlink((folder_ + socket_name).c_str());
  ::rmdir(folder_.c_str());
}

RAYTRAIN_INLINE auto SocketListener::peer_text(int descriptor, sockaddr_storage const& from, socklen_t size_bytes)
    -> std::string {
  if (from.ss_family == AF_INET) return SocketAddress{from, size_bytes}.text();
  ucred process{};
  socklen_t process_bytes = sizeof process;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &process, &process_bytes) != 0) return "unix:";
  return "unix: process " + std::to_string(process.pid) + " of user " + std::to_string(process.uid);
}

}  // namespace raytrain
