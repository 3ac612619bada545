// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include <raytrain/core/rank.hpp>
#include <raytrain/core/usable_cores.hpp>

namespace raytrain::detail {

/// A place where a fixed number of threads meet, again and again. A meeting takes place for all of them or for none.
///
/// Everything that decides about a meeting is one word (who came, how many meetings there were, why there are no
/// more), so a last arrival and an abort at the same moment have one winner.
///
/// Threads: `meet`, `finish` and `parity` by the members, each on its own thread; everything else from any thread.
class Rendezvous {
 public:
  static constexpr std::uint32_t max_members = 4096;

  enum class Outcome : std::uint8_t {
    met,      ///< All came; what they wrote before is visible.
    aborted,  ///< `abort` was called; stronger than the reasons below.
    broken,   ///< `break_up` was called; stronger than the one below.
    ended,    ///< A member will not come any more: `first_ended`.
  };

  explicit Rendezvous(WorldSize members) : members_{members.value}, spins_{members.value <= usable_cores().size()} {}

  /// 0 or 1, the other one after every meeting. For a member it changes only within its own `meet` and `finish`.
  [[nodiscard]] auto parity() const noexcept -> std::uint32_t {
    return (word_.load(std::memory_order_acquire) / one_meeting) & 1U;
  }

  /// Waits for all members, unless there will be no more meetings.
  [[nodiscard]] auto meet() noexcept -> Outcome { return arrive(no_more); }

  /// Waits for all members whatever happens. For members that have met to work on each other's memory: each will come.
  void finish() noexcept { (void)arrive(0); }

  void abort() noexcept { close(aborted); }
  void break_up() noexcept { close(broken); }
  void end(Rank member) noexcept {
    auto expected = nobody;
    first_ended_.compare_exchange_strong(expected, member.value);
    close(ended);
  }
  /// Only after the outcome `ended`.
  [[nodiscard]] auto first_ended() const noexcept -> Rank { return {first_ended_.load()}; }

  void request_stop() noexcept { stop_requested_.store(true); }

  /// Whether `request_stop` came before the last meeting was complete: the same for all members until they meet again.
  /// A single member needs no meeting; and after `abort` there are none, so that everybody may know at once.
  [[nodiscard]] auto stop_agreed() const noexcept -> bool {
    return (word_.load(std::memory_order_acquire) & (stop | aborted)) != 0 || (members_ == 1 && stop_requested_.load());
  }

 private:
  // From the lowest bit: 13 bits of members that have arrived, flags, and at the top the number of meetings. That one
  // wraps around, and may: nobody waits for one meeting while 2^15 others take place.
  static constexpr std::uint32_t arrived = (1U << 13U) - 1;
  static constexpr std::uint32_t stop = 1U << 13U;
  static constexpr std::uint32_t aborted = 1U << 14U;
  static constexpr std::uint32_t broken = 1U << 15U;
  static constexpr std::uint32_t ended = 1U << 16U;
  static constexpr std::uint32_t no_more = aborted | broken | ended;
  static constexpr std::uint32_t one_meeting = 1U << 17U;

  static constexpr std::uint32_t nobody = ~0U;
  /// Longer than steps of one length usually differ, since a thread that the system has to wake comes 50 us late.
  static constexpr std::chrono::milliseconds spin_time{2};
  /// A core that is given away may be gone for milliseconds.
  static constexpr std::chrono::microseconds keep_core_time{50};

  static void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  auto arrive(std::uint32_t interrupts) noexcept -> Outcome {
    auto word = word_.load(std::memory_order_acquire);
    auto next = word;
    bool last = false;
    do {
      if ((word & interrupts) != 0) return reason(word);
      last = (word & arrived) == members_ - 1;
      next = last ? (word & ~arrived) + one_meeting : word + 1;
      if (last && stop_requested_.load(std::memory_order_relaxed)) next |= stop;
    } while (!word_.compare_exchange_weak(word, next));
    if (!last) return wait(next, interrupts);
    word_.notify_all();
    return Outcome::met;
  }

  auto wait(std::uint32_t word, std::uint32_t interrupts) const noexcept -> Outcome {
    auto const mine = word / one_meeting;
    auto const over = [&] {
      word = word_.load(std::memory_order_acquire);
      return word / one_meeting != mine || (word & interrupts) != 0;
    };
    if (!spins_ || !spin(over)) {
      while (!over()) word_.wait(word, std::memory_order_acquire);
    }
    // A meeting that took place counts, whatever was called after it.
    return word / one_meeting != mine ? Outcome::met : reason(word);
  }

  template <class Condition>
  static auto spin(Condition const& over) noexcept -> bool {
    auto const try_some_times = [&] {
      for (int i = 0; i < 64; ++i) {
        if (over()) return true;
        relax();
      }
      return false;
    };
    if (try_some_times()) return true;
    for (auto const begin = std::chrono::steady_clock::now();;) {
      if (try_some_times()) return true;
      auto const waited = std::chrono::steady_clock::now() - begin;
      if (waited > spin_time) return false;
      // On a busy machine the one who is missing may have been put on this very core.
      if (waited > keep_core_time) std::this_thread::yield();
    }
  }

  static auto reason(std::uint32_t word) noexcept -> Outcome {
    return (word & aborted) != 0 ? Outcome::aborted : (word & broken) != 0 ? Outcome::broken : Outcome::ended;
  }

  void close(std::uint32_t why) noexcept {
    word_.fetch_or(why);
    word_.notify_all();
  }

  std::uint32_t const members_;
  bool const spins_;
  std::atomic<std::uint32_t> first_ended_{nobody};
  std::atomic<bool> stop_requested_{false};
  alignas(64) std::atomic<std::uint32_t> word_{0};
};

}  // namespace raytrain::detail
