// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <list>
#include <utility>

#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/error.hpp>
#include <asio/this_coro.hpp>

#include <raytrain/exec/detail/event.hpp>
#include <raytrain/exec/executor.hpp>

namespace raytrain {

/// Coroutines that run beside each other and end together: the first that throws cancels the others.
///
/// Nothing outlives a scope. Once something is spawned, `join` must be reached: what could throw in between belongs
/// into a child of its own. A scope that is destroyed while a child runs ends the program.
///
/// Threads: the executor's; also any one thread while the executor does not run.
/// Cancel:  `cancel` reaches each child in what it waits for, or in the next thing it waits for; which then throws
///          `std::system_error` (`asio::error::operation_aborted`). A child that lets it pass has not failed.
class Scope {
 public:
  explicit Scope(Executor& executor) : executor_{executor}, child_ended_{executor.context()} {}
  Scope(Scope const&) = delete;
  auto operator=(Scope const&) -> Scope& = delete;
  ~Scope();

  /// Starts a child: at once on the executor's thread, up to where it waits. In a cancelled scope it is not started.
  void spawn(asio::awaitable<void> child);

  /// Waits until every child has ended, those too that are spawned meanwhile, and throws what the first failing one
  /// threw.
  ///
  /// Cancel: terminal; cancels the children, waits for them, then throws `std::system_error`.
  [[nodiscard("co_await the result")]] auto join() -> asio::awaitable<void> {
    auto const before = co_await asio::this_coro::cancellation_state;
    if (before.cancelled() != asio::cancellation_type::none) cancel();
    std::function<void()> const on_cancel = [this] { cancel(); };
    while (!children_.empty()) co_await child_ended_.wait_although_cancelled(on_cancel);
    if (auto const failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
    auto const after = co_await asio::this_coro::cancellation_state;
    detail::Event::throw_if_cancelled(after);
  }

  /// Idempotent.
  void cancel();

 private:
  using Children = std::list<asio::cancellation_signal>;

  /// Asio would throw wherever a cancelled coroutine awaits another, so that it could not join a scope of its own.
  static auto run_child(asio::awaitable<void> child) -> asio::awaitable<void> {
    co_await asio::this_coro::throw_if_cancelled(false);
    co_await std::move(child);
  }

  void child_ended(Children::iterator signal, std::exception_ptr failure);

  static auto is_cancellation(std::exception_ptr const& failure) -> bool;

  Executor& executor_;
  detail::Event child_ended_;
  Children children_;  ///< One signal for each child that runs.
  std::exception_ptr failure_;
  bool cancelled_ = false;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/exec/scope-inl.hpp>
#endif
