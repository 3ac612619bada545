// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include <raytrain/checkpoint/checkpoint_copies.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/exec/background_thread.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/checkpoint_stager.hpp>

namespace raytrain {

struct CheckpointStager::Staging {
  std::future<std::exception_ptr> failure;
};

RAYTRAIN_INLINE CheckpointStager::~CheckpointStager() {
  if (staging_) staging_->failure.wait();
}

RAYTRAIN_INLINE void CheckpointStager::fill(CheckpointDraft& draft) {
  finish_staging();
  fill_to_hold(draft);
}

RAYTRAIN_INLINE void CheckpointStager::fill_to_hold(CheckpointDraft& draft) {
  give_up_held();
  replicated_ = {};  // of a fill that has failed
  if (options_.copies.of_replicated && draft.is_yet_replicated()) {
    replicated_ = draft.without_own();
    replicated_.fill(Rank{0}, buffers_);
  }
  draft.fill(rank(), buffers_);
}

RAYTRAIN_INLINE void CheckpointStager::begin_staging(CheckpointDraft draft, CheckpointOrdinal checkpoint,
                                                     TakenData::State taken) {
  finish_staging();
  auto part = prepare_part(std::move(draft), checkpoint, std::move(taken));
  held_copy_.reset();
  if (part) post(*std::move(part));
}

RAYTRAIN_INLINE void CheckpointStager::hold(CheckpointDraft draft, CheckpointOrdinal checkpoint,
                                            TakenData::State taken) {
  held_ = prepare_part(std::move(draft), checkpoint, std::move(taken));
}

RAYTRAIN_INLINE void CheckpointStager::begin_staging_held() {
  held_copy_.reset();
  if (!held_) return;
  finish_staging();
  post(*std::exchange(held_, std::nullopt));
}

RAYTRAIN_INLINE void CheckpointStager::give_up_held() {
  held_.reset();
  if (held_copy_) options_.copies.kept->drop(*std::exchange(held_copy_, std::nullopt));
}

RAYTRAIN_INLINE auto CheckpointStager::prepare_part(CheckpointDraft draft, CheckpointOrdinal checkpoint,
                                                    TakenData::State taken) -> std::optional<Part> {
  give_up_held();
  auto replicated = std::exchange(replicated_, {});
  if (options_.copies.kept) {  // before anybody can commit it
    auto files = replicated.files_of(Rank{0});
    files.merge(draft.files_of(rank()));
    options_.copies.kept->add(checkpoint, std::move(files));
    held_copy_ = checkpoint;
  }
  if (!draft.empty() || !replicated.is_complete()) {
    return Part{std::move(draft), std::move(replicated), checkpoint, std::move(taken)};
  }
  tell_of({rank(), checkpoint, {}, draft.metadata()}, std::move(taken));
  return std::nullopt;
}

RAYTRAIN_INLINE void CheckpointStager::post(Part given) {
  auto const is_complete = given.draft.is_complete() && given.replicated.is_complete();
  auto const shared_part = std::make_shared<std::optional<Part>>(std::move(given));
  // A failure is a value, so that this thread alone holds the exception in the end, and ends it.
  std::packaged_task<std::exception_ptr()> task{[this, shared_part] {
    auto part = std::exchange(*shared_part, std::nullopt);
    try {
      if (!complete(*part)) return std::exception_ptr{};
      auto ref = stage_part(*part);
      auto taken = std::move(part->taken);
      part.reset();  // before whoever waits for it makes the next one
      tell_of(std::move(ref), std::move(taken));
    } catch (Stopped const&) {  // which would be taken for a stop of the run
      return std::make_exception_ptr(Error{Errc::invalid_call, "staging a checkpoint",
                                           "the store has thrown Stopped, which is for collectives",
                                           "mend its CheckpointStore::write_part"});
    } catch (...) {
      return std::current_exception();
    }
    return std::exception_ptr{};
  }};
  staging_ = std::make_shared<Staging>(Staging{task.get_future()});
  auto stage = [shared = std::make_shared<decltype(task)>(std::move(task))] { (*shared)(); };
  if (is_complete) return options_.store_thread.post(std::move(stage));
  if (!waiting_) waiting_.emplace();
  waiting_->post([this, shared_part, stage = std::move(stage)]() mutable {
    try {
      (void)complete(**shared_part);
    } catch (...) {  // and once more on the store thread
    }
    options_.store_thread.post(std::move(stage));
  });
}

RAYTRAIN_INLINE void CheckpointStager::tell_of(CheckpointRef ref, TakenData::State taken) {
  ref.batch_sizes = std::move(taken.batch_sizes);
  ref.positions = std::move(taken.positions);
  ref.orders = std::move(taken.orders);
  options_.link.send(std::move(ref));
}

RAYTRAIN_INLINE auto CheckpointStager::complete(Part const& part) -> bool {
  auto const aborted = options_.link.aborted();
  std::optional<std::chrono::steady_clock::time_point> failed_at;
  auto const is_given_up = [&] {
    // Also where another worker's failure is the cause: exchanges that were cut short may be in what the device copies.
    if (aborted.stop_requested()) return true;
    if (!options_.failed.stop_requested()) return false;
    auto const now = std::chrono::steady_clock::now();
    if (!failed_at) failed_at = now;
    return now - *failed_at >= options_.grace_after_failure;
  };
  try {
    part.draft.wait_until_complete(is_given_up);
    part.replicated.wait_until_complete(is_given_up);
  } catch (Stopped const&) {
    return false;
  }
  return true;
}

RAYTRAIN_INLINE auto CheckpointStager::stage_part(Part const& part) -> CheckpointRef {
  if (part.draft.empty()) return {rank(), part.checkpoint, {}, part.draft.metadata()};
  for (int retries = 0;; ++retries) {
    try {
      return options_.store.stage(part.draft, rank(), part.checkpoint);
    } catch (Error const& error) {
      if (error.code() != Errc::io) throw;
      if (retries < options_.write_retries && pause_before(retries)) continue;
      if (options_.on_failed_write == OnFailedWrite::fail) throw;
      CheckpointRef ref{rank(), part.checkpoint, {}, {}};
      ref.failure = ErrorInfo{error};
      return ref;
    }
  }
}

RAYTRAIN_INLINE auto CheckpointStager::pause_before(int retry) -> bool {
  constexpr std::chrono::milliseconds first{100};
  constexpr std::chrono::milliseconds longest{10'000};
  constexpr int most_doublings = 7;  // by which the longest is reached
  auto const pause = std::min(longest, first * (1 << std::min(retry, most_doublings)));
  auto const aborted = options_.link.aborted();
  std::mutex mutex;
  std::condition_variable_any changed;
  std::stop_callback const on_abort{aborted, [&] {
                                      std::lock_guard const lock{mutex};
                                      changed.notify_all();
                                    }};
  std::unique_lock lock{mutex};
  changed.wait_for(lock, options_.failed, pause, [&] { return aborted.stop_requested(); });
  return !aborted.stop_requested() && !options_.failed.stop_requested();
}

RAYTRAIN_INLINE void CheckpointStager::finish_staging() {
  if (auto const staging = std::exchange(staging_, nullptr)) {
    if (auto const failure = staging->failure.get()) std::rethrow_exception(failure);
  }
}

}  // namespace raytrain
