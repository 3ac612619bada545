// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <future>
#include <thread>
#include <utility>

namespace raytrain::detail {

/// Calls `function`, which may wait for other ranks without a limit, on a thread for which nobody has to wait; on this
/// one where there is no other to be had. It must not throw, nor use what may end before it does.
///
/// What it returns is ready when the function has returned, and not valid where it was called on this thread. To
/// destroy that waits for nothing.
template <class Function>
[[nodiscard]] auto call_apart(Function const& function) -> std::future<void> {
  std::future<void> end;
  try {
    std::promise<void> called;
    end = called.get_future();
    std::thread{[function, called = std::move(called)]() mutable {
      function();
      called.set_value();
    }}.detach();
  } catch (std::exception const&) {
    function();
    return {};
  }
  return end;
}

}  // namespace raytrain::detail
