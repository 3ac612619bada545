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
#include <raytrain/core/inline.hpp>
#include <raytrain/exec/socket_address.hpp>

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

}  // namespace raytrain
