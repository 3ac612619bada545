// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include <asio/posix/stream_descriptor.hpp>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/socket_address.hpp>
#include <raytrain/exec/socket_listener.hpp>

namespace raytrain {

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
  domain_ = address.data()->sa_family;
  descriptor_number_ = ::socket(domain_, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor_number_ < 0) refuse(address);
  descriptor_.assign(descriptor_number_);
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
