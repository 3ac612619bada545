// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/message_sink.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

/// Hands on what workers in other processes send to the controller.
///
/// Threads: any.
class RemoteWorkers {
 public:
  explicit RemoteWorkers(WorldSize size) : started_in_(size.value), ended_in_(size.value) {}

  /// An attempt begins: its messages go to `queue`, and first those that were kept for it.
  void open(MessageQueue& queue, Attempt attempt);

  /// Nothing reaches the queue afterwards.
  void close();

  /// False while the controller is behind, and then nothing is taken.
  [[nodiscard]] auto hand_on(Rank rank, WorkerMessage& message) -> bool;

  /// Without waiting for the controller, since the connections of all ranks wait meanwhile; kept until it takes
  /// messages.
  void push(WorkerMessage message);

  /// That of the last `open`.
  [[nodiscard]] auto attempt() const noexcept -> Attempt { return {attempt_.load()}; }

  /// Whether the rank's worker has sent its last message in this attempt.
  [[nodiscard]] auto has_ended(Rank rank) const noexcept -> bool { return ended_in_[rank.value] == attempt_; }

  /// Whether it has sent its first one.
  [[nodiscard]] auto has_started(Rank rank) const noexcept -> bool { return started_in_[rank.value] == attempt_; }

 private:
  std::mutex mutex_;
  MessageQueue* queue_ = nullptr;
  bool closed_ = false;
  std::vector<WorkerMessage> kept_;
  std::atomic<std::uint64_t> attempt_ = 1;
  // By rank, the last attempt in which it has sent its first and its last message.
  std::vector<std::atomic<std::uint64_t>> started_in_;
  std::vector<std::atomic<std::uint64_t>> ended_in_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/remote_workers-inl.hpp>
#endif
