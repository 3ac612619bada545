// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <utility>
#include <variant>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/remote_workers.hpp>
#include <raytrain/launch/message_sink.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void RemoteWorkers::open(MessageQueue& queue, Attempt attempt) {
  std::scoped_lock const lock{mutex_};
  attempt_ = attempt.value;
  queue_ = &queue;
  for (auto& message : std::exchange(kept_, {})) queue_->push(std::move(message));
}

RAYTRAIN_INLINE void RemoteWorkers::close() {
  std::scoped_lock const lock{mutex_};
  closed_ = true;
  queue_ = nullptr;
}

RAYTRAIN_INLINE auto RemoteWorkers::hand_on(Rank rank, WorkerMessage& message) -> bool {
  auto const starts = std::holds_alternative<Started>(message);
  auto const ends = std::holds_alternative<Finished>(message) || std::holds_alternative<Failed>(message);
  auto const attempt_of_message = attempt_of(message).value;
  {
    std::scoped_lock const lock{mutex_};
    if (closed_) return true;
    if (starts) started_in_[rank.value] = attempt_of_message;
    if (queue_ == nullptr || !queue_->try_send(message)) return false;
  }
  if (ends) ended_in_[rank.value] = attempt_of_message;
  return true;
}

RAYTRAIN_INLINE void RemoteWorkers::push(WorkerMessage message) {
  std::scoped_lock const lock{mutex_};
  if (closed_) return;
  if (queue_ != nullptr) return queue_->push(std::move(message));
  kept_.push_back(std::move(message));
}

}  // namespace raytrain::detail
