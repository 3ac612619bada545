// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

#include <raytrain/core/error.hpp>

namespace raytrain {

/// Where a stream socket listens: "tcp:10.0.0.5:41234" (IPv4) or "unix:/path".
class SocketAddress {
 public:
  /// Errors: `invalid_config` for a text that is no such address.
  explicit SocketAddress(std::string_view text) {
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

  /// As the operating system has it.
  SocketAddress(sockaddr_storage const& address, socklen_t size_bytes)
      : address_{address}, size_bytes_{std::min<socklen_t>(size_bytes, sizeof address_)} {}

  [[nodiscard]] auto is_unix() const noexcept -> bool { return address_.ss_family == AF_UNIX; }
  [[nodiscard]] auto data() const noexcept -> sockaddr const* { return reinterpret_cast<sockaddr const*>(&address_); }
  [[nodiscard]] auto size_bytes() const noexcept -> socklen_t { return size_bytes_; }

  [[nodiscard]] auto text() const -> std::string {
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
