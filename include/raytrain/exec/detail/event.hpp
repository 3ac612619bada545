// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

#include <asio/associated_cancellation_slot.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

namespace raytrain::detail {

/// Where one coroutine sleeps until it is told to look again. A call of `notify` while nobody sleeps has no effect.
/// Copies are the same event.
///
/// Threads: `notify` from any thread; everything else from the executor's.
/// Cancel:  terminal; `wait` throws `std::system_error`.
class Event {
 public:
  explicit Event(asio::io_context& context) : context_{context} {}

  /// May also return because of an earlier `notify`: the caller looks again, and waits again.
  [[nodiscard("co_await the result")]] auto wait() -> asio::awaitable<void> {
    auto const state = co_await asio::this_coro::cancellation_state;
    throw_if_cancelled(state);
    std::function<void()> on_cancel = [this] { resume_later(asio::error::operation_aborted); };
    Park park{sleeper_, std::move(on_cancel)};
    co_await asio::async_initiate<asio::use_awaitable_t<> const, void(std::error_code)>(std::move(park),
                                                                                        asio::use_awaitable);
  }

  /// As `wait`, but sleeps on when it is cancelled, and calls `on_cancel` instead.
  [[nodiscard("co_await the result")]] auto wait_although_cancelled(std::function<void()> on_cancel)
      -> asio::awaitable<void> {
    Park park{sleeper_, std::move(on_cancel)};
    co_await asio::async_initiate<asio::use_awaitable_t<> const, void(std::error_code)>(std::move(park),
                                                                                        asio::use_awaitable);
  }

  void notify() const { resume_later(std::error_code{}); }

  [[nodiscard]] auto has_sleeper() const noexcept -> bool { return static_cast<bool>(sleeper_->resume); }

  /// A cancelled coroutine is told only once, so that a wait that begins afterwards would never end.
  static void throw_if_cancelled(asio::cancellation_state const& state);

 private:
  struct Sleeper {
    std::function<void(std::error_code)> resume;
  };

  class Park {
   public:
    Park(std::shared_ptr<Sleeper> sleeper, std::function<void()> on_cancel)
        : sleeper_{std::move(sleeper)}, on_cancel_{std::move(on_cancel)} {}

    template <class Handler>
    void operator()(Handler&& handler) {
      if (auto slot = asio::get_associated_cancellation_slot(handler); slot.is_connected()) {
        slot.assign([on_cancel = std::move(on_cancel_)](asio::cancellation_type) { on_cancel(); });
      }
      // std::function asks for a copyable target, and a handler owns its coroutine.
      auto const owned = std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler));
      sleeper_->resume = [owned](std::error_code error) { std::move (*owned)(error); };
    }

   private:
    std::shared_ptr<Sleeper> sleeper_;
    std::function<void()> on_cancel_;
  };

  /// Never inside the caller: it may hold a lock, or be about to be destroyed by the coroutine that it wakes.
  void resume_later(std::error_code error) const;

  asio::io_context& context_;
  std::shared_ptr<Sleeper> sleeper_ = std::make_shared<Sleeper>();
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/exec/detail/event-inl.hpp>
#endif
