// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

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

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/exec/socket_address-inl.hpp>
#endif
