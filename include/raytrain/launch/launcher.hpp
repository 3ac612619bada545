// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>

#include <raytrain/core/rank.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// What every worker runs, on its own thread. Must not throw: a failure is a `Failed` message.
using WorkerMain = std::function<void(WorkerLink&)>;

/// Takes the messages of all workers, from their threads.
using MessageSink = std::function<void(Message)>;

/// Where workers run, and the line on which they talk to the controller.
///
/// What the compiler cannot check, every model promises:
///  - `launch` starts exactly `size()` workers, each on one operating system thread for its whole life, and returns
///    without waiting for any of them;
///  - each worker's messages reach the sink in the order in which it sent them;
///  - `tell` reaches every worker that has not ended, and never waits for one;
///  - `join` returns when every worker has ended, and `launch` may then be called again.
///
/// Threads: everything from the controller's.
template <class L>
concept Launcher = requires(L& launcher, L const& view, WorkerMain main, MessageSink sink, Message const& message) {
  /// Fixed from construction on.
  { view.size() }
  noexcept->std::same_as<WorldSize>;

  /// Throws `Error{Errc::worker_failed}` when a worker cannot be started; then none is running.
  { launcher.launch(std::move(main), std::move(sink)) } -> std::same_as<void>;

  { launcher.tell(message) } -> std::same_as<void>;

  { launcher.join() }
  noexcept->std::same_as<void>;
};

}  // namespace raytrain
