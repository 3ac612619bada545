// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace raytrain {

/// A network of this host: an interface that is up and not loopback, by one of its IPv4 addresses.
struct NetworkInterface {
  std::string name;
  std::string address;
};

/// In the system's order, asked for anew at each call.
[[nodiscard]] auto network_interfaces() -> std::vector<NetworkInterface>;

namespace detail {

/// Whether an IPv4 address lies in a network such as "10.1.0.0/16".
[[nodiscard]] auto is_in_network(std::string const& address, std::string_view cidr) -> bool;

}  // namespace detail

/// What the environment variable RAYTRAIN_INTERFACE asks for: an interface's name, its address, or a network such as
/// 10.1.0.0/16. Empty: the first interface will do.
[[nodiscard]] auto wanted_interface() -> std::string;

/// Address of the wanted interface; none when there is none, and 127.0.0.1 on a host without a network when none is
/// wanted.
[[nodiscard]] auto find_address(std::string const& wanted) -> std::optional<std::string>;

/// Address by which other hosts are to reach this one.
///
/// Errors: `invalid_config` when this host has no such interface, listing those that it has.
[[nodiscard]] auto reachable_address() -> std::string;

/// Address on which the controller of a job listens for its ranks; loopback while all are on this host.
///
/// Errors: as `reachable_address`.
[[nodiscard]] auto control_address(bool on_one_host) -> std::string;

/// What the environment variable RAYTRAIN_PORT asks for: the one TCP port that the controller listens on, where a
/// firewall lets nothing else through. 0, or no such variable: any that is free.
///
/// Errors: `invalid_config` for what is no port.
[[nodiscard]] auto wanted_port() -> std::uint16_t;

/// The machine and the process that a worker lives in.
struct Host {
  std::string hostname;
  std::int64_t pid{};
  std::string node_ip;  ///< The wanted interface's, else the first one's, else 127.0.0.1.
};

/// Asks the system anew at each call.
[[nodiscard]] auto this_host() -> Host;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/host-inl.hpp>
#endif
