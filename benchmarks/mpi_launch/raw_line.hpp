// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <vector>

/// Two ends of a blocking connection, for two processes that a fork makes: the twin of the control line.
class RawPair {
 public:
  explicit RawPair(bool tcp) {
    if (!tcp) {
      check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()), "socketpair");
      return;
    }
    int const listener = check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    sockaddr_in address{};
    socklen_t size = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    check(::bind(listener, any, size), "bind");
    check(::listen(listener, 1), "listen");
    check(::getsockname(listener, any, &size), "getsockname");
    ends_[0] = check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    check(::connect(ends_[0], any, size), "connect");
    ends_[1] = check(::accept(listener, nullptr, nullptr), "accept");
    ::close(listener);
    int const on = 1;
    for (int const end : ends_) check(::setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "setsockopt");
  }

  /// After the fork each process keeps one end.
  [[nodiscard]] auto keep(std::size_t which) const -> int {
    ::close(ends_[1 - which]);
    return ends_[which];
  }

 private:
  static auto check(int result, char const* function) -> int {
    if (result < 0) throw std::system_error{errno, std::generic_category(), function};
    return result;
  }

  std::array<int, 2> ends_{-1, -1};
};

/// Errors: when the connection has ended.
inline void write_all(int end, std::byte const* bytes, std::size_t count) {
  for (std::size_t done = 0; done < count;) {
    auto const written = ::send(end, bytes + done, count - done, MSG_NOSIGNAL);
    if (written <= 0) throw std::system_error{errno, std::generic_category(), "send"};
    done += static_cast<std::size_t>(written);
  }
}

/// False when the connection has ended.
inline auto read_all(int end, std::byte* bytes, std::size_t count) -> bool {
  for (std::size_t done = 0; done < count;) {
    auto const read = ::recv(end, bytes + done, count - done, 0);
    if (read <= 0) return false;
    done += static_cast<std::size_t>(read);
  }
  return true;
}

/// What one end asks of the other: to read so many messages of one size and to answer each one, or only the last.
struct RawTask {
  std::uint64_t message_bytes = 0;
  std::uint64_t answer_bytes = 0;
  std::uint64_t messages = 0;
  std::uint64_t answer_each = 0;
};

/// The answering end, until the other one closes. A message begins with its number, and so does its answer.
inline void answer_raw(int end) {
  RawTask task;
  while (read_all(end, reinterpret_cast<std::byte*>(&task), sizeof task)) {
    constexpr std::size_t read_bytes = std::size_t{64} << 10U;
    std::vector<std::byte> buffer(task.answer_each != 0 ? task.message_bytes : read_bytes);
    std::vector<std::byte> answer(task.answer_bytes);
    if (task.answer_each == 0) {
      for (auto left = task.message_bytes * task.messages; left > 0;) {
        auto const read = ::recv(end, buffer.data(), std::min<std::size_t>(left, buffer.size()), 0);
        if (read <= 0) return;
        left -= static_cast<std::size_t>(read);
      }
      write_all(end, answer.data(), answer.size());
      continue;
    }
    for (std::uint64_t number = 0; number < task.messages; ++number) {
      if (!read_all(end, buffer.data(), buffer.size())) return;
      std::memcpy(answer.data(), buffer.data(), sizeof number);
      write_all(end, answer.data(), answer.size());
    }
  }
}
