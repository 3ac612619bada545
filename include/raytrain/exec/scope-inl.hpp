// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <exception>
#include <system_error>
#include <utility>

#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/error.hpp>
#include <asio/this_coro.hpp>

#include <raytrain/core/inline.hpp>
#include <raytrain/exec/detail/event.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>

namespace raytrain {

RAYTRAIN_INLINE Scope::~Scope() {
  assert(children_.empty() && "a Scope must be joined before it is destroyed");
  if (!children_.empty()) std::terminate();
}

RAYTRAIN_INLINE void Scope::spawn(asio::awaitable<void> child) {
  if (cancelled_) return;
  auto const signal = children_.emplace(children_.end());
  executor_.start(run_child(std::move(child)), signal->slot(),
                  [this, signal](std::exception_ptr failure) { child_ended(signal, std::move(failure)); });
}

RAYTRAIN_INLINE void Scope::cancel() {
  if (std::exchange(cancelled_, true)) return;
  for (auto& signal : children_) signal.emit(asio::cancellation_type::terminal);
}

RAYTRAIN_INLINE void Scope::child_ended(Children::iterator signal, std::exception_ptr failure) {
  children_.erase(signal);
  if (failure && !(cancelled_ && is_cancellation(failure))) {
    if (!failure_) failure_ = std::move(failure);
    cancel();
  }
  if (children_.empty()) child_ended_.notify();
}

RAYTRAIN_INLINE auto Scope::is_cancellation(std::exception_ptr const& failure) -> bool {
  try {
    std::rethrow_exception(failure);
  } catch (std::system_error const& error) {
    return error.code() == asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

}  // namespace raytrain
