// SPDX-License-Identifier: Apache-2.0
// This program's own send and sendmsg, which take the place of the C library's: they count what goes over connections
// that begin with raytrain's handshake, and leave MPI's alone.
#include "sent_bytes.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <raytrain/launch/detail/handshake.hpp>

namespace {

constexpr std::size_t most_descriptors = 4096;

std::array<std::atomic<bool>, most_descriptors> is_control_line{};
std::atomic<std::uint64_t> total_bytes{0};

void count(int descriptor, void const* first, std::size_t first_bytes, ssize_t sent) {
  if (sent <= 0 || static_cast<std::size_t>(descriptor) >= most_descriptors) return;
  auto& counts = is_control_line[static_cast<std::size_t>(descriptor)];
  std::string_view const text{static_cast<char const*>(first), first_bytes};
  if (first_bytes == raytrain::detail::handshake_bytes && text.starts_with(raytrain::detail::handshake_magic)) {
    counts = true;
  }
  if (!counts) return;
  total_bytes += static_cast<std::uint64_t>(sent);
}

}  // namespace

extern "C" {

auto send(int descriptor, void const* buffer, size_t size, int flags) -> ssize_t {
  auto const sent = ::syscall(SYS_sendto, descriptor, buffer, size, flags, nullptr, 0);
  count(descriptor, buffer, size, sent);
  return sent;
}

auto sendmsg(int descriptor, msghdr const* message, int flags) -> ssize_t {
  auto const sent = ::syscall(SYS_sendmsg, descriptor, message, flags);
  if (message->msg_iovlen > 0) count(descriptor, message->msg_iov[0].iov_base, message->msg_iov[0].iov_len, sent);
  return sent;
}
}

auto sent_bytes() -> std::uint64_t { return total_bytes; }
