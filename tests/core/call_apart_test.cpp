// SPDX-License-Identifier: Apache-2.0
#include <raytrain/core/call_apart.hpp>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "../support/child_process.hpp"

using raytrain::detail::call_apart;

namespace {

std::atomic<bool> exits{false};
std::atomic<bool> is_over{false};

/// A library that is taken down at the process's exit.
struct Library {
  Library() = default;
  Library(Library const&) = delete;
  auto operator=(Library const&) -> Library& = delete;
  ~Library() { ::_exit(is_over ? 0 : 1); }
};

}  // namespace

TEST_CASE("a call that comes to its end while the process exits does so before the library that it is in is gone") {
  auto const outcome = in_child([]() -> std::string {
    static Library const library;
    auto const end = call_apart([] {
      while (!exits) std::this_thread::yield();
      std::this_thread::yield();
      is_over = true;
    });
    CHECK(end.valid());
    (void)std::atexit([] { exits = true; });
    std::exit(0);
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("a call that never comes to its end does not keep the process from its own") {
  auto const outcome = in_child([]() -> std::string {
    auto const end = call_apart([] {
      while (true) std::this_thread::yield();
    });
    CHECK(end.valid());
    std::exit(0);
  });
  CHECK(outcome.exit_code == 0);
}
