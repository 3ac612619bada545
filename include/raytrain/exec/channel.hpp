// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <asio/awaitable.hpp>
#include <asio/this_coro.hpp>

#include <raytrain/core/error.hpp>
#include <raytrain/exec/detail/event.hpp>
#include <raytrain/exec/executor.hpp>

namespace raytrain {

/// Messages from many threads to one coroutine. None is dropped, and those of one thread stay in order.
///
/// The consumer takes all waiting messages at once and works through them, so that producers seldom find it at the
/// lock. At most `capacity` messages wait; those that the consumer took at its last look do not count.
///
/// Threads: `receive` and `try_receive` from the executor's; everything else from any. It may be destroyed as soon as
///          the consumer has the last message and no `send` waits; the executor outlives the producers.
/// Cancel:  terminal, of `receive`. A waiting `send` is ended by `close`.
template <class T>
class Channel {
 public:
  /// Errors: `invalid_config` when `capacity` is 0.
  Channel(Executor& executor, std::size_t capacity)
      : executor_{executor}, capacity_{capacity}, look_again_{executor.context()} {
    if (capacity == 0) {
      throw Error{Errc::invalid_config, "Channel", "the capacity must be at least 1 (got 0)",
                  "a message needs a place to wait"};
    }
  }
  Channel(Channel const&) = delete;
  auto operator=(Channel const&) -> Channel& = delete;

  /// Waits for room while the channel is full; false once it is closed, and then the message is gone.
  ///
  /// Errors: `invalid_call` on the executor's own thread, which would wait for itself.
  auto send(T message) -> bool {
    if (executor_.runs_here()) {
      throw Error{Errc::invalid_call, "Channel::send", "called on the executor's own thread, which must not wait",
                  "use push or try_send there"};
    }
    std::unique_lock lock{mutex_};
    while (queue_.size() >= capacity_ && !closed_) {
      ++waiting_senders_;
      room_.wait(lock);
      --waiting_senders_;
    }
    return add(message, lock);
  }

  /// False when the channel is full or closed; then `message` is untouched.
  auto try_send(T& message) -> bool {
    std::unique_lock lock{mutex_};
    return queue_.size() < capacity_ && add(message, lock);
  }

  /// Adds a message whatever the capacity, and never waits; false once the channel is closed.
  ///
  /// For what the executor tells itself (a timer, a signal, a job that is done): few messages, which would wait for
  /// themselves in `send`.
  auto push(T message) -> bool {
    std::unique_lock lock{mutex_};
    return add(message, lock);
  }

  /// Takes the oldest message, waiting for one if there is none; `std::nullopt` once the channel is closed and empty.
  ///
  /// One source among several is waited for by pushing them all into one channel, never by `operator||`, which drops
  /// what the loser had received.
  ///
  /// Resumes: on the executor. Its other coroutines get their turn at least every 256 messages.
  /// Cancel:  terminal; throws `std::system_error`, and no message is lost.
  /// Errors:  `invalid_call` while another coroutine waits in it.
  [[nodiscard("co_await the result")]] auto receive() -> asio::awaitable<std::optional<T>> {
    auto const state = co_await asio::this_coro::cancellation_state;
    detail::Event::throw_if_cancelled(state);
    if (turn_ == max_turn) {
      look_again_.notify();
      co_await wait();
    }
    while (next_ == batch_.size()) {
      auto const taken = take_batch();
      if (taken == Taken::closed) co_return std::nullopt;
      if (taken == Taken::nothing) co_await wait();
    }
    ++turn_;
    co_return std::move(batch_[next_++]);
  }

  /// The oldest message if the consumer has taken it over already, without the cost of a coroutine.
  ///
  /// `std::nullopt` says only that it is time for `receive`, which waits where it must, gives other coroutines their
  /// turn and notices a cancellation.
  ///
  /// Threads: the executor's.
  [[nodiscard]] auto try_receive() -> std::optional<T> {
    if (next_ == batch_.size() || turn_ == max_turn) return std::nullopt;
    ++turn_;
    return std::move(batch_[next_++]);
  }

  /// No message is accepted any more; those that wait are still received. Idempotent.
  void close() {
    std::unique_lock lock{mutex_};
    closed_ = true;
    room_.notify_all();
    wake_consumer(lock);
  }

 private:
  enum class Taken { nothing, messages, closed };
  static constexpr int max_turn = 256;
  static constexpr std::size_t cache_line = 64;

  auto add(T& message, std::unique_lock<std::mutex>& lock) -> bool {
    if (closed_) return false;
    queue_.push_back(std::move(message));
    wake_consumer(lock);
    return true;
  }

  /// Releases the lock before it wakes, so that the consumer need not wait for it; from then on the consumer may
  /// destroy the channel.
  void wake_consumer(std::unique_lock<std::mutex>& lock) {
    if (!std::exchange(consumer_sleeps_, false)) return;
    auto const look_again = look_again_;
    lock.unlock();
    look_again.notify();
  }

  auto take_batch() -> Taken {
    batch_.clear();
    next_ = 0;
    std::lock_guard const lock{mutex_};
    batch_.swap(queue_);
    if (waiting_senders_ > 0) room_.notify_all();
    if (!batch_.empty()) return Taken::messages;
    consumer_sleeps_ = true;
    return closed_ ? Taken::closed : Taken::nothing;
  }

  auto wait() -> asio::awaitable<void> {
    if (look_again_.has_sleeper()) {
      throw Error{Errc::invalid_call, "Channel::receive", "another coroutine waits in it",
                  "a channel has one consumer"};
    }
    turn_ = 0;
    return look_again_.wait();
  }

  Executor& executor_;
  std::size_t const capacity_;
  detail::Event look_again_;

  alignas(cache_line) std::mutex mutex_;
  std::condition_variable room_;
  std::vector<T> queue_;
  std::size_t waiting_senders_ = 0;
  bool consumer_sleeps_ = false;
  bool closed_ = false;

  /// The consumer's own, as everything below: it writes there for each message, which would slow producers down that
  /// look at the same cache line.
  alignas(cache_line) std::vector<T> batch_;
  std::size_t next_ = 0;
  int turn_ = 0;  ///< Messages received since the last wait.
};

}  // namespace raytrain
