// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/launch/host.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto network_interfaces() -> std::vector<NetworkInterface> {
  std::vector<NetworkInterface> found;
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return found;
  for (auto const* at = interfaces; at != nullptr; at = at->ifa_next) {
    auto const usable = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable || at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    auto const& address = reinterpret_cast<sockaddr_in const*>(at->ifa_addr)->sin_addr;
    if (inet_ntop(AF_INET, &address, text.data(), text.size()) != nullptr) {
      found.push_back({at->ifa_name, text.data()});
    }
  }
  freeifaddrs(interfaces);
  return found;
}

}  // namespace raytrain

namespace raytrain::detail {

RAYTRAIN_INLINE auto is_in_network(std::string const& address, std::string_view cidr) -> bool {
  auto const slash = cidr.find('/');
  if (slash == std::string_view::npos) return false;
  auto const digits = cidr.substr(slash + 1);
  unsigned bits = 0;
  auto const parsed = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  in_addr one{};
  in_addr other{};
  if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size() || bits > 32 ||
      inet_pton(AF_INET, address.c_str(), &one) != 1 ||
      inet_pton(AF_INET, std::string{cidr.substr(0, slash)}.c_str(), &other) != 1) {
    return false;
  }
  auto const mask = bits == 0 ? 0U : ~std::uint32_t{0} << (32 - bits);
  return (ntohl(one.s_addr) & mask) == (ntohl(other.s_addr) & mask);
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto wanted_interface() -> std::string {
  auto const* const wanted = std::getenv("RAYTRAIN_INTERFACE");
  return wanted != nullptr ? wanted : "";
}

RAYTRAIN_INLINE auto find_address(std::string const& wanted) -> std::optional<std::string> {
  for (auto const& [name, address] : network_interfaces()) {
    if (wanted.empty() || name == wanted || address == wanted || detail::is_in_network(address, wanted)) return address;
  }
  if (wanted.empty()) return "127.0.0.1";
  return std::nullopt;
}

RAYTRAIN_INLINE auto reachable_address() -> std::string {
  auto const wanted = wanted_interface();
  if (auto address = find_address(wanted)) return *std::move(address);
  std::string present;
  for (auto const& [name, address] : network_interfaces()) {
    present += (present.empty() ? "" : ", ") + name + " (" + address + ")";
  }
  throw Error{Errc::invalid_config, "RAYTRAIN_INTERFACE",
              "host " + host_name() + " has no network '" + wanted + "'; it has " +
                  (present.empty() ? std::string{"none"} : present),
              "name one of them, or a network such as 10.1.0.0/16 that each host has an address in"};
}

RAYTRAIN_INLINE auto control_address(bool on_one_host) -> std::string {
  return on_one_host ? "127.0.0.1" : reachable_address();
}

RAYTRAIN_INLINE auto wanted_port() -> std::uint16_t {
  auto const* const wanted = std::getenv("RAYTRAIN_PORT");
  std::string_view const digits = wanted != nullptr ? wanted : "0";
  std::uint16_t port = 0;
  auto const parsed = std::from_chars(digits.begin(), digits.end(), port);
  if (parsed.ec == std::errc{} && parsed.ptr == digits.end()) return port;
  throw Error{Errc::invalid_config, "RAYTRAIN_PORT",
              "must be a port from 0 to 65535 (got '" + std::string{digits} + "')",
              "write one that is free on rank 0's host, or 0 for any"};
}

RAYTRAIN_INLINE auto this_host() -> Host {
  auto const address = find_address(wanted_interface());
  return {host_name(), getpid(), address ? *address : find_address({}).value()};
}

}  // namespace raytrain
