// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <raytrain/collective/detail/barrier.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/waiting.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/signs_of_life.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value,
                                 std::chrono::nanoseconds time) noexcept {
  auto const seconds = std::chrono::floor<std::chrono::seconds>(time);
  timespec const timeout{static_cast<std::time_t>(seconds.count()), static_cast<long>((time - seconds).count())};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

RAYTRAIN_INLINE void wake_all(std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

RAYTRAIN_INLINE auto BarrierState::construct(void* memory, Members members) -> BarrierState& {
  auto* const state = new (memory) BarrierState{members};
  for (auto& slot : std::span{state->first_slot(), std::size_t{2} * members.count.value}) new (&slot) Slot;
  return *state;
}

RAYTRAIN_INLINE auto BarrierState::first_slot() noexcept -> Slot* {
  return reinterpret_cast<Slot*>(reinterpret_cast<std::byte*>(this) + sizeof *this);
}

RAYTRAIN_INLINE void BarrierState::close(std::uint32_t why) noexcept {
  closed_.fetch_or(why);
  wake();
}

RAYTRAIN_INLINE void BarrierState::close_for(Rank member, std::atomic<std::uint32_t>& first,
                                             std::uint32_t why) noexcept {
  auto expected = nobody;
  first.compare_exchange_strong(expected, member.value);
  close(why);
}

RAYTRAIN_INLINE void BarrierState::wake() noexcept {
  epoch_.fetch_add(1);
  if (sleepers_.load() != 0) wake_all(epoch_);
}

RAYTRAIN_INLINE Barrier::Barrier(BarrierState& state, BarrierMember member)
    : state_{&state}, member_{std::move(member)} {
  for (std::uint64_t const round : {0U, 1U})
    round_ = std::max(round_, slots_of(round)[member_.rank.value].arrival.load() / 2);
}

RAYTRAIN_INLINE auto Barrier::next_slot() noexcept -> Slot& {
  return slots_of(fell_through_ ? round_ : round_ + 1)[member_.rank.value];
}

RAYTRAIN_INLINE auto Barrier::finish(Call const& call) -> Outcome {
  return arrive(call, state_->can_be_killed_ ? BarrierState::closing : 0);
}

RAYTRAIN_INLINE auto Barrier::stop_agreed() const noexcept -> bool {
  return stop_agreed_ || (state_->closed_.load() & BarrierState::aborted) != 0 ||
         (state_->members_ == 1 && state_->stop_requested_.load());
}

RAYTRAIN_INLINE auto Barrier::world_rank_of(Rank member) const noexcept -> Rank {
  return member_.world_ranks.empty() ? member : Rank{member_.world_ranks[member.value]};
}

RAYTRAIN_INLINE auto Barrier::missing() const -> std::vector<std::uint32_t> {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t rank = 0; rank < state_->members_; ++rank) {
    if (!has_entered(rank)) missing.push_back(world_rank_of({rank}).value);
  }
  return missing;
}

RAYTRAIN_INLINE void Barrier::relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

RAYTRAIN_INLINE auto Barrier::slots_of(std::uint64_t round) const noexcept -> std::span<Slot> {
  return {state_->first_slot() + round % 2 * state_->members_, state_->members_};
}

RAYTRAIN_INLINE auto Barrier::has_entered(std::uint32_t rank) const noexcept -> bool {
  return slots_of(round_)[rank].arrival.load() / 2 == round_;
}

RAYTRAIN_INLINE auto Barrier::all_have_entered() noexcept -> bool {
  auto const slots = slots_of(round_);
  for (; entered_ < slots.size(); ++entered_) {
    auto const arrival = slots[entered_].arrival.load();
    if (arrival / 2 != round_) return false;
    stop_agreed_ = stop_agreed_ || arrival % 2 != 0;
  }
  return true;
}

RAYTRAIN_INLINE auto Barrier::arrive(Call const& call, std::uint32_t interrupts) -> Outcome {
  if (auto const closed = state_->closed_.load() & interrupts; closed != 0) return reason(closed);
  auto& slot = next_slot();
  slot.call = call;
  ++round_;
  entered_ = 0;
  auto const agreed_before = stop_agreed_;
  slot.arrival.store(round_ * 2 + (state_->stop_requested_.load(std::memory_order_relaxed) ? 1 : 0));
  if (all_have_entered()) {
    if (state_->sleepers_.load() != 0) state_->wake();
  } else {
    wait(interrupts);
  }
  if (auto const closed = state_->closed_.load() & interrupts; closed != 0 && !completes()) {
    stop_agreed_ = agreed_before;
    fell_through_ = true;
    return reason(closed);
  }
  // The next one's arrival is then in this core's cache. Nobody reads that slot: all have entered this barrier.
  __builtin_prefetch(&next_slot(), 1);
  return Outcome::completed;
}

RAYTRAIN_INLINE auto Barrier::completes() noexcept -> bool {
  auto known = state_->fate_.load();
  while (known / 2 < round_) {
    auto const decision = round_ * 2 + (all_have_entered() ? 1 : 0);
    if (state_->fate_.compare_exchange_weak(known, decision)) return decision % 2 != 0;
  }
  // Who is beyond this barrier has seen it complete.
  auto const completed = known / 2 > round_ || known % 2 != 0;
  if (completed) (void)all_have_entered();  // and knows who asked for a stop
  return completed;
}

RAYTRAIN_INLINE void Barrier::wait(std::uint32_t interrupts) {
  auto const over = [&] { return all_have_entered() || (state_->closed_.load() & interrupts) != 0; };
  if (state_->spins_ && look_some_times(over)) return;
  SignsOfLife::During const waits{SignsOfLife::Activity::waits};
  if (state_->spins_ && spin(over)) return;
  Sleeper const sleeper{state_->sleepers_};
  auto const began = Clock::now();
  Waiting waiting{member_.limits};
  for (;;) {
    auto const epoch = state_->epoch_.load();
    if (over()) break;
    auto const waited = Clock::now() - began;
    if (member_.watch) {
      member_.watch(waited);
      sleep_while(state_->epoch_, epoch, watch_interval);
      continue;
    }
    if (waiting.is_to_warn(waited)) {
      warn_of_missing(waiting);
      continue;
    }
    if (interrupts != 0 && waiting.is_too_long(waited)) {
      state_->time_out(member_.rank);
      continue;
    }
    sleep_while(state_->epoch_, epoch, std::clamp(waiting.time_left(waited), shortest_nap, longest_nap));
  }
}

RAYTRAIN_INLINE void Barrier::warn_of_missing(Waiting& waiting) const {
  for (std::uint32_t rank = 0; rank < member_.rank.value; ++rank) {
    if (has_entered(rank)) return waiting.warn_no_more();  // and will say it
  }
  auto const& slot = slots_of(round_)[member_.rank.value];
  waiting.warn([&] {
    return late_warning({missing(), member_.limits.warn_after}, world_rank_of(member_.rank), to_string(slot.call));
  });
}

RAYTRAIN_INLINE auto Barrier::reason(std::uint32_t closed) noexcept -> Outcome {
  if ((closed & BarrierState::aborted) != 0) return Outcome::aborted;
  if ((closed & BarrierState::broken) != 0) return Outcome::broken;
  return (closed & BarrierState::timed_out) != 0 ? Outcome::timed_out : Outcome::ended;
}

}  // namespace raytrain::detail
