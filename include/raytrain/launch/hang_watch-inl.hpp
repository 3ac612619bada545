// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/signs_of_life.hpp>
#include <raytrain/core/thread_state.hpp>
#include <raytrain/launch/hang_watch.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto Silence::look(SignsOfLife const& signs, SignsOfLife::Clock::time_point now) noexcept -> Verdict {
  activity_ = signs.activity();
  if (auto const beats = signs.beats(); beats != beats_ || signs.expects_silence(now)) {
    if (beats != beats_ && signs_ < fewest_signs) ++signs_;
    beats_ = beats;
    longest_ = std::max(longest_, std::exchange(working_, 0));
    auto const was_over = limit_ > 0 && silent_ >= limit_;
    silent_ = 0;
    return was_over ? Verdict::ended : Verdict::none;
  }
  ++silent_;
  auto const again = std::max<std::int64_t>(limit_ / 10, std::chrono::seconds{1} / period);
  auto const is_held_up = activity_ == SignsOfLife::Activity::saves || activity_ == SignsOfLife::Activity::reports;
  if (is_held_up) return limit_ > 0 && silent_ == limit_ ? Verdict::held_up : Verdict::none;
  if (limit_ > 0 && silent_ >= limit_ && (silent_ - limit_) % again == 0) return Verdict::over;
  if (activity_ != SignsOfLife::Activity::own_work) return Verdict::none;
  ++working_;
  auto const unusual = std::max(fewest_looks, unusual_factor * longest_);
  return signs_ == fewest_signs && working_ == unusual ? Verdict::unusual : Verdict::none;
}

RAYTRAIN_INLINE HangWatch::Watched::Watched(HangWatch& watch, WorkerLink& link)
    : owner_{link.signs_of_life()}, watch_{watch} {
  std::scoped_lock const lock{watch_.mutex_};
  if (!watch_.thread_.joinable()) watch_.thread_ = std::thread{[&watch] { watch.look_until_the_end(); }};
  watch_.entries_.push_back({link, Silence{watch_.limit_}});
  entry_ = std::prev(watch_.entries_.end());
}

RAYTRAIN_INLINE HangWatch::Watched::~Watched() {
  std::scoped_lock const lock{watch_.mutex_};
  watch_.entries_.erase(entry_);
}

RAYTRAIN_INLINE HangWatch::~HangWatch() {
  {
    std::scoped_lock const lock{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

RAYTRAIN_INLINE void HangWatch::look_until_the_end() {
  std::unique_lock lock{mutex_};
  while (!changed_.wait_for(lock, Silence::period, [this] { return ending_; })) {
    for (auto& entry : entries_) {
      try {
        look_at(entry);
      } catch (std::exception const&) {
        continue;  // what cannot be told now is told again
      }
    }
  }
}

RAYTRAIN_INLINE void HangWatch::look_at(Entry& entry) {
  auto const& signs = entry.link.signs_of_life();
  auto const verdict = entry.silence.look(signs, SignsOfLife::Clock::now());
  if (verdict == Silence::Verdict::none) return;
  auto const rank = entry.link.placement().world_rank;
  if (verdict == Silence::Verdict::ended) return entry.link.send(Silent{rank, std::chrono::milliseconds{0}});
  Silent silent{rank, entry.silence.length()};
  silent.waits = entry.silence.activity() == SignsOfLife::Activity::waits;
  silent.doing = thread_activity(signs.thread());
  auto const is_over = verdict == Silence::Verdict::over;
  if (auto const stack = is_over ? thread_stack(signs.thread()) : std::string{}; !stack.empty())
    silent.doing += ", " + stack;
  if (entry.silence.is_broken(signs)) return;
  if (is_over) return entry.link.send(std::move(silent));
  if (verdict == Silence::Verdict::held_up) {
    auto const saves = entry.silence.activity() == SignsOfLife::Activity::saves;
    return entry.link.send(Warning{
        rank, "rank " + std::to_string(rank.value) + " has waited for " + std::to_string(silent.silent_ms) + " ms " +
                  (saves ? "for its checkpoints to be written" : "for the controller to take what it reports") +
                  ", which FailureConfig::hang_timeout does not end; look for a slow disk or callback"});
  }
  entry.link.send(Warning{rank, "rank " + std::to_string(rank.value) + " has shown no sign of life for " +
                                    std::to_string(silent.silent_ms) +
                                    " ms, much longer than ever before: " + silent.doing +
                                    "; if that is right, heartbeat() shows that it goes on, and expect() announces "
                                    "long work"});
}

}  // namespace raytrain
