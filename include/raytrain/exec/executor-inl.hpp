// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <atomic>
#include <exception>
#include <functional>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/exec/executor.hpp>

namespace raytrain {

RAYTRAIN_INLINE void Executor::start(asio::awaitable<void> coroutine, asio::cancellation_slot slot,
                                     std::function<void(std::exception_ptr)> on_end) {
  asio::co_spawn(context_, std::move(coroutine), asio::bind_cancellation_slot(slot, std::move(on_end)));
}

RAYTRAIN_INLINE void Executor::drive(asio::awaitable<void> main) {
  if (running_.exchange(true)) {
    throw Error{Errc::invalid_call, "Executor::run", "this executor runs already",
                "spawn further coroutines in a Scope"};
  }
  std::exception_ptr failure;
  bool done = false;
  context_.restart();
  asio::cancellation_slot const never_cancelled;
  start(std::move(main), never_cancelled, [&failure, &done](std::exception_ptr thrown) {
    failure = std::move(thrown);
    done = true;
  });
  while (!done) {
    context_.run_one();
    wake_ups_.fetch_add(1, std::memory_order_relaxed);
  }
  running_ = false;
  if (failure) std::rethrow_exception(failure);
}

}  // namespace raytrain
