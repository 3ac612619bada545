// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/data/prefetch_options.hpp>

namespace raytrain {

/// Makes the values 0, 1, 2 ... of a sequence in threads of its own, ahead of the one that takes them in this order.
///
/// Threads: one at a time.
/// Cancel:  the destructor waits for the values that are being made right now, and no others are begun.
template <std::move_constructible T>
class OrderedPrefetch {
 public:
  /// Called with each index once, by one of the threads.
  using Make = std::function<T(std::size_t index)>;
  /// Makes with `make` what falls to the calling thread.
  using Run = std::function<void(Make const& make)>;

  /// `size`: of the sequence. `on_thread` is called on each thread, and calls `run` once, around which it sets the
  /// thread up. `options`: at least one thread; there are fewer where the system has no more of them.
  ///
  /// Errors: `std::system_error` when the system has none.
  OrderedPrefetch(std::size_t size, PrefetchOptions const& options, std::function<void(Run const& run)> on_thread)
      : OrderedPrefetch{size, options} {
    auto const count = std::min(static_cast<std::size_t>(options.threads), size);
    on_thread_ = std::move(on_thread);
    try {
      for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this]() noexcept { work(); });
    } catch (std::system_error const&) {
      if (threads_.empty()) throw;
    }
  }
  OrderedPrefetch(OrderedPrefetch const&) = delete;
  auto operator=(OrderedPrefetch const&) -> OrderedPrefetch& = delete;

  ~OrderedPrefetch() {
    {
      std::lock_guard const lock{mutex_};
      end_ = 0;
    }
    may_make_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  /// The next value, for which it waits. Not more often than the sequence is long.
  ///
  /// Errors: what was thrown when it was made, or when a thread was set up; from then on always.
  [[nodiscard]] auto take() -> T {
    std::unique_lock lock{mutex_};
    auto& slot = slots_[taken_ % slots_.size()];
    made_.wait(lock, [&] { return slot.is_made || failure_; });
    if (failure_) std::rethrow_exception(failure_);
    if (slot.error) std::rethrow_exception(slot.error);
    auto value = std::move(*slot.value);
    slot.value.reset();
    slot.is_made = false;
    ++taken_;
    lock.unlock();
    may_make_.notify_one();
    return value;
  }

 private:
  /// Belongs to the thread that has claimed its index, until it is made.
  struct Slot {
    std::optional<T> value{};
    std::exception_ptr error{};
    bool is_made = false;
  };

  // Once it has run, the destructor ends the threads that the other constructor has started.
  OrderedPrefetch(std::size_t size, PrefetchOptions const& options)
      : end_{size},
        slots_{std::min(
            size, static_cast<std::size_t>(options.threads) * static_cast<std::size_t>(options.prefetch_factor))} {}

  void work() noexcept {
    try {
      on_thread_([this](Make const& make) { make_all(make); });
    } catch (...) {
      std::lock_guard const lock{mutex_};
      failure_ = std::current_exception();
      end_ = 0;
    }
    made_.notify_one();
  }

  void make_all(Make const& make) {
    std::unique_lock lock{mutex_};
    while (true) {
      may_make_.wait(lock, [&] { return claimed_ >= end_ || claimed_ < taken_ + slots_.size(); });
      if (claimed_ >= end_) return;
      auto const index = claimed_++;
      auto& slot = slots_[index % slots_.size()];
      lock.unlock();
      try {
        slot.value.emplace(make(index));
      } catch (...) {
        slot.error = std::current_exception();
      }
      lock.lock();
      slot.is_made = true;
      if (slot.error) end_ = std::min(end_, claimed_);  // what follows would be made in vain
      made_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable made_;
  std::condition_variable may_make_;
  std::size_t end_;          // no thread begins this one, or a later one
  std::size_t claimed_ = 0;  // values that were begun
  std::size_t taken_ = 0;
  std::vector<Slot> slots_;     // of the values from `taken_` on, in a ring
  std::exception_ptr failure_;  // of a thread that could not be set up
  std::function<void(Run const&)> on_thread_;
  std::vector<std::thread> threads_;
};

}  // namespace raytrain
