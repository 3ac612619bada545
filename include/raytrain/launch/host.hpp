// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

#include <raytrain/core/host_name.hpp>

namespace raytrain {

/// The machine and the process that a worker lives in.
struct Host {
  std::string hostname;
  std::int64_t pid{};
  std::string node_ip;  ///< First IPv4 address that is up and not loopback, else 127.0.0.1.
};

/// Asks the system anew at each call.
[[nodiscard]] inline auto this_host() -> Host {
  Host host{host_name(), getpid(), "127.0.0.1"};

  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return host;
  for (auto const* at = interfaces; at != nullptr; at = at->ifa_next) {
    auto const usable = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable || at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    auto const& address = reinterpret_cast<sockaddr_in const*>(at->ifa_addr)->sin_addr;
    if (inet_ntop(AF_INET, &address, text.data(), text.size()) != nullptr) {
      host.node_ip = text.data();
      break;
    }
  }
  freeifaddrs(interfaces);
  return host;
}

}  // namespace raytrain
