// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <system_error>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/sockets.hpp>
#include <raytrain/launch/detail/control_frames.hpp>

namespace raytrain::detail {

/// The frames for one connection, in order. One that comes alone is written by the thread that brings it, which saves
/// waking the executor's; those that follow each other closely wait, and are written together.
///
/// Threads: `write_to` on the executor's; everything else from any. The outbox is closed before its stream is.
class ControlOutbox {
 public:
  using Frame = std::shared_ptr<Bytes const>;

  explicit ControlOutbox(Executor& executor) : clock_{executor.clock()}, frames_{executor, 1} {}

  /// Never waits; false once it is closed.
  auto push(Frame frame) -> bool;

  /// Waits while more than `limit_bytes` are not written; false once it is closed.
  auto push_when_below(std::size_t limit_bytes, Frame frame) -> bool;

  /// How many bytes are not written yet.
  [[nodiscard]] auto bytes() -> std::size_t;

  /// Nothing more is accepted; what waits is still written. Idempotent.
  void close();

  /// Lets frames be written, until the outbox is closed and empty; then says goodbye and writes no more. Once only.
  ///
  /// Ends without an error when the connection breaks: whoever reads sees that, behind all that came.
  /// Cancel: terminal; ends it without an error, too.
  [[nodiscard("co_await the result")]] auto write_to(SocketStream& stream) -> asio::awaitable<void> {
    try {
      co_await write_all_to(stream);
    } catch (std::system_error const&) {
    }
  }

 private:
  auto write_all_to(SocketStream& stream) -> asio::awaitable<void> {
    write_here(stream);
    while (auto frame = co_await frames_.receive()) {
      if ((*frame)->size() >= gather_bytes) {
        co_await stream.write(**frame);
        count_written((*frame)->size());
        continue;
      }
      Bytes gathered;
      for (; frame; frame = frames_.try_receive()) {
        gathered.insert(gathered.end(), (*frame)->begin(), (*frame)->end());
        if (gathered.size() >= gather_bytes) break;
      }
      co_await stream.write(gathered);
      count_written(gathered.size());
    }
    auto const goodbye = goodbye_frame();
    co_await stream.write(goodbye);
    stream.end_writing();
  }

  /// Frames up to this size are written together.
  static constexpr std::size_t gather_bytes = std::size_t{64} << 10U;
  /// A frame that follows another one sooner does not come alone. Writing takes a few microseconds.
  static constexpr std::chrono::microseconds close_together{10};

  void write_here(SocketStream& stream);

  auto add(Frame frame) -> bool;

  void count_written(std::size_t count);

  Clock& clock_;
  Channel<Frame> frames_;
  std::mutex mutex_;
  std::condition_variable written_;
  SocketStream* stream_ = nullptr;  ///< Not used once closed.
  Clock::TimePoint last_{};         ///< When a frame came.
  std::size_t bytes_ = 0;           ///< In frames that wait or are being written by `write_to`.
  bool closed_ = false;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/control_outbox-inl.hpp>
#endif
