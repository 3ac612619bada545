// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/collective/waiting.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

/// Sleeps until `wake_all`, at most for `time`, unless `word` has another value by now; may return early. Unlike
/// `std::atomic::wait`, it ends in time, and the word may be in memory that several processes share.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value, std::chrono::nanoseconds time) noexcept;

void wake_all(std::atomic<std::uint32_t>& word) noexcept;

/// Two of them, since processors fetch lines in pairs.
inline constexpr std::size_t two_cache_lines = 128;

/// Where an array is, for whoever shares the memory that it is in.
struct ArrayLocation {
  enum class Kind : std::uint8_t {
    nothing,  ///< There is no array.
    shared,
    hidden,  ///< In memory that only its owner sees.
  };

  ArrayLocation() = default;
  ArrayLocation(std::uint64_t at, Kind of) noexcept : offset{at}, kind{of} {}

  std::uint64_t offset : 62 = 0;
  Kind kind : 2 = Kind::nothing;
};

/// What a member shows to the others when it enters a barrier.
struct alignas(two_cache_lines) Slot {
  static constexpr std::size_t inline_bytes = 2048;

  std::atomic<std::uint64_t> arrival{0};  ///< Barriers that its member has entered, twice, + 1 if it knew of a stop.
  Call call{};
  ArrayLocation from{};  ///< What the others may read until the next barrier.
  ArrayLocation to{};    ///< Where the others may write until the next barrier.
  alignas(64) std::byte bytes[inline_bytes];
};
static_assert(offsetof(Slot, bytes) == 64, "a slot and the beginning of a small array are two cache lines");

/// What the members of a `Barrier` share: lies in memory that they all see, at whatever address.
class BarrierState {
 public:
  static constexpr std::uint32_t max_members = 4096;

  [[nodiscard]] static constexpr auto bytes_for(WorldSize members) noexcept -> std::size_t {
    return sizeof(BarrierState) + std::size_t{2} * members.value * sizeof(Slot);
  }

  struct Members {
    WorldSize count{1};
    bool spin = false;           ///< Each has a core of its own.
    bool can_be_killed = false;  ///< They are processes: one that has entered a barrier may not enter the next.
  };

  /// In `memory` of `bytes_for` bytes, which is aligned as a slot.
  static auto construct(void* memory, Members members) -> BarrierState&;

  [[nodiscard]] auto members() const noexcept -> WorldSize { return {members_}; }
  [[nodiscard]] auto spins() const noexcept -> bool { return spins_; }

  void abort() noexcept { close(aborted); }
  void break_up() noexcept { close(broken); }
  void end(Rank member) noexcept { close_for(member, first_ended_, ended); }
  void time_out(Rank member) noexcept { close_for(member, first_timed_out_, timed_out); }

  /// Only after the outcome `ended`, or `timed_out`.
  [[nodiscard]] auto first_ended() const noexcept -> Rank { return {first_ended_.load()}; }
  [[nodiscard]] auto first_timed_out() const noexcept -> Rank { return {first_timed_out_.load()}; }

  void request_stop() noexcept { stop_requested_.store(true); }

  [[nodiscard]] auto is_closed() const noexcept -> bool { return closed_.load() != 0; }
  [[nodiscard]] auto is_aborted() const noexcept -> bool { return (closed_.load() & aborted) != 0; }
  [[nodiscard]] auto is_broken() const noexcept -> bool { return (closed_.load() & broken) != 0; }

 private:
  friend class Barrier;

  static constexpr std::uint32_t aborted = 1U << 0U;
  static constexpr std::uint32_t broken = 1U << 1U;
  static constexpr std::uint32_t timed_out = 1U << 2U;
  static constexpr std::uint32_t ended = 1U << 3U;
  static constexpr std::uint32_t closing = aborted | broken | timed_out | ended;
  static constexpr std::uint32_t nobody = ~0U;

  explicit BarrierState(Members members) noexcept
      : members_{members.count.value}, spins_{members.spin}, can_be_killed_{members.can_be_killed} {}

  [[nodiscard]] auto first_slot() noexcept -> Slot*;

  void close(std::uint32_t why) noexcept;

  void close_for(Rank member, std::atomic<std::uint32_t>& first, std::uint32_t why) noexcept;

  void wake() noexcept;

  // Written seldom and read in every barrier.
  alignas(two_cache_lines) std::uint32_t const members_;
  bool const spins_;
  bool const can_be_killed_;
  std::atomic<bool> stop_requested_{false};
  std::atomic<std::uint32_t> closed_{0};
  std::atomic<std::uint32_t> first_ended_{nobody};
  std::atomic<std::uint32_t> first_timed_out_{nobody};
  /// Twice the last barrier about which somebody had to decide, + 1 if it completed.
  std::atomic<std::uint64_t> fate_{0};

  alignas(two_cache_lines) std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint32_t> epoch_{0};  ///< Another one whenever sleepers should look again.
};

/// Who takes part in a barrier, and how it waits.
struct BarrierMember {
  Rank rank;
  WaitLimits limits{};
  /// The ranks in the world of all members, in order; empty where they are the whole world.
  std::vector<std::uint32_t> world_ranks{};
  /// Called again and again while it waits, with how long it has waited, in place of the limits. What it throws ends
  /// the wait, and the member enters no barrier any more.
  std::function<void(std::chrono::nanoseconds)> watch{};
};

/// One member's side of a barrier that all members enter again and again; each time it completes for all of them or for
/// none.
///
/// A member enters by writing the number of the barrier into its own slot, together with what it has to show, and reads
/// the others' slots until it finds the number in each: as few cache lines as possible change hands, and each once.
/// Who finds the barrier closed while somebody is missing asks for a decision, which is the same for all: everything
/// involved is sequentially consistent, so whoever enters after the closing finds it closed.
///
/// Threads: the member's.
class Barrier {
 public:
  enum class Outcome : std::uint8_t {
    completed,  ///< All entered; what they wrote before is visible.
    aborted,    ///< `abort` was called; stronger than the reasons below.
    broken,     ///< `break_up` was called; stronger than those below.
    timed_out,  ///< A member has waited too long: `first_timed_out`.
    ended,      ///< A member will not enter any more: `first_ended`.
  };

  Barrier(BarrierState& state, BarrierMember member);

  [[nodiscard]] auto state() const noexcept -> BarrierState& { return *state_; }
  [[nodiscard]] auto member() const noexcept -> BarrierMember const& { return member_; }

  /// The member's own, to be filled before it enters the next barrier. After one that did not complete it stays
  /// that one's: some may still read what was shown before.
  [[nodiscard]] auto next_slot() noexcept -> Slot&;

  /// Of the number of the last barrier: on all members the same, also on one that has been made anew.
  [[nodiscard]] auto is_odd() const noexcept -> bool { return round_ % 2 != 0; }

  /// What everybody has shown in the last barrier, by rank, until the member enters the next one.
  [[nodiscard]] auto slots() const noexcept -> std::span<Slot const> { return slots_of(round_); }

  /// Waits for all members, unless the barrier is closed. `call` is shown to them.
  [[nodiscard]] auto enter(Call const& call) -> Outcome { return arrive(call, BarrierState::closing); }

  /// The same for members that have worked on each other's memory. Threads of one process wait whatever happens, since
  /// each will enter, and nobody may free memory before.
  [[nodiscard]] auto finish(Call const& call) -> Outcome;

  /// Whether `request_stop` came before the last barrier was complete: the same for all members until the next one.
  /// A single member needs no barrier; and after `abort` there are none, so that everybody may know at once.
  [[nodiscard]] auto stop_agreed() const noexcept -> bool;

  [[nodiscard]] auto world_rank_of(Rank member) const noexcept -> Rank;

  /// Names of those who have not entered the last barrier that this member entered.
  [[nodiscard]] auto missing() const -> std::vector<std::uint32_t>;

 private:
  using Clock = std::chrono::steady_clock;

  /// Longer than steps of one length usually differ, since a thread that the system has to wake comes 50 us late.
  static constexpr std::chrono::milliseconds spin_time{2};
  /// A core that is given away may be gone for milliseconds.
  static constexpr std::chrono::microseconds keep_core_time{50};

  static void relax() noexcept;

  /// Two sets in turn: a member that is already in the next barrier may not disturb one that still reads this one's.
  [[nodiscard]] auto slots_of(std::uint64_t round) const noexcept -> std::span<Slot>;

  [[nodiscard]] auto has_entered(std::uint32_t rank) const noexcept -> bool;

  [[nodiscard]] auto all_have_entered() noexcept -> bool;

  auto arrive(Call const& call, std::uint32_t interrupts) -> Outcome;

  /// Decides for everybody, once.
  auto completes() noexcept -> bool;

  /// Returns when all have come, or when one of `interrupts` has.
  void wait(std::uint32_t interrupts);

  void warn_of_missing(Waiting& waiting) const;

  /// One that is to be woken.
  class Sleeper {
   public:
    explicit Sleeper(std::atomic<std::uint32_t>& all) noexcept : all_{all} { all_.fetch_add(1); }
    Sleeper(Sleeper const&) = delete;
    auto operator=(Sleeper const&) -> Sleeper& = delete;
    ~Sleeper() { all_.fetch_sub(1); }

   private:
    std::atomic<std::uint32_t>& all_;
  };

  template <class Condition>
  static auto look_some_times(Condition const& over) noexcept -> bool {
    for (int i = 0; i < 64; ++i) {
      if (over()) return true;
      relax();
    }
    return false;
  }

  template <class Condition>
  static auto spin(Condition const& over) noexcept -> bool {
    for (auto const begin = Clock::now();;) {
      if (look_some_times(over)) return true;
      auto const waited = Clock::now() - begin;
      if (waited > spin_time) return false;
      // On a busy machine the one who is missing may have been put on this very core.
      if (waited > keep_core_time) std::this_thread::yield();
    }
  }

  static auto reason(std::uint32_t closed) noexcept -> Outcome;

  static constexpr std::chrono::milliseconds watch_interval{10};
  static constexpr std::chrono::milliseconds shortest_nap{1};
  static constexpr std::chrono::milliseconds longest_nap{3'600'000};

  BarrierState* state_;
  BarrierMember member_;
  std::uint64_t round_ = 0;    ///< The last barrier that this member entered.
  std::uint32_t entered_ = 0;  ///< Members below have entered it.
  bool stop_agreed_ = false;
  bool fell_through_ = false;  ///< That barrier did not complete, and none will any more.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/barrier-inl.hpp>
#endif
