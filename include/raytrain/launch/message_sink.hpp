// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/message/message.hpp>

namespace raytrain {

/// Takes the messages of workers to the controller: its own queue, or the connection to the process that has it.
///
/// Threads: any.
class MessageSink {
 public:
  MessageSink() = default;
  MessageSink(MessageSink const&) = delete;
  auto operator=(MessageSink const&) -> MessageSink& = delete;
  virtual ~MessageSink() = default;

  /// Waits while the controller is behind; messages arrive in the order in which one thread sent them. False once
  /// nobody takes them any more, and then the message is gone.
  virtual auto send(WorkerMessage message) -> bool = 0;
};

/// The queue of a controller in this process.
class MessageQueue : public MessageSink {
 public:
  /// Never waits: false while the controller is behind, and then nothing is taken.
  virtual auto try_send(WorkerMessage& message) -> bool = 0;

  /// Never waits, for the few messages that nobody can keep.
  virtual void push(WorkerMessage message) = 0;
};

}  // namespace raytrain
