// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/remote_workers.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void RemoteWorkers::open(std::shared_ptr<MessageSink const> sink, Attempt attempt) {
  std::scoped_lock const lock{mutex_};
  attempt_ = attempt.value;
  sink_ = std::move(sink);
  for (auto& message : std::exchange(kept_, {})) sink_->push(std::move(message));
}

RAYTRAIN_INLINE void RemoteWorkers::close() {
  std::scoped_lock const lock{mutex_};
  closed_ = true;
  sink_ = nullptr;
}

RAYTRAIN_INLINE auto RemoteWorkers::hand_on(Rank rank, WorkerMessage& message) -> bool {
  auto const starts = std::holds_alternative<Started>(message);
  auto const ends = std::holds_alternative<Finished>(message) || std::holds_alternative<Failed>(message);
  auto const attempt_of_message = attempt_of(message).value;
  {
    std::scoped_lock const lock{mutex_};
    if (closed_) return true;
    if (starts) started_in_[rank.value] = attempt_of_message;
    if (sink_ == nullptr || !sink_->try_send(message)) return false;
  }
  if (ends) ended_in_[rank.value] = attempt_of_message;
  return true;
}

RAYTRAIN_INLINE void RemoteWorkers::push(WorkerMessage message) {
  std::scoped_lock const lock{mutex_};
  if (closed_) return;
  if (sink_ != nullptr) return sink_->push(std::move(message));
  kept_.push_back(std::move(message));
}

}  // namespace raytrain::detail
