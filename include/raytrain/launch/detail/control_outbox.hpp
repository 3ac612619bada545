// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include <raytrain/core/bytes.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/socket_stream.hpp>
#include <raytrain/launch/detail/control_frames.hpp>

namespace raytrain::detail {

/// The frames that wait to be written to one connection, in order.
///
/// Threads: `write_to` on the executor's; everything else from any.
class ControlOutbox {
 public:
  using Frame = std::shared_ptr<Bytes const>;

  explicit ControlOutbox(Executor& executor) : frames_{executor, 1} {}

  /// Never waits; false once it is closed.
  auto push(Frame frame) -> bool {
    std::lock_guard const lock{mutex_};
    return add(std::move(frame));
  }

  /// Waits while more than `limit_bytes` are not written; false once it is closed.
  auto push_when_below(std::size_t limit_bytes, Frame frame) -> bool {
    std::unique_lock lock{mutex_};
    written_.wait(lock, [&] { return closed_ || bytes_ <= limit_bytes; });
    return add(std::move(frame));
  }

  /// How many bytes are not written yet.
  [[nodiscard]] auto bytes() -> std::size_t {
    std::lock_guard const lock{mutex_};
    return bytes_;
  }

  /// Nothing more is accepted; what waits is still written. Idempotent.
  void close() {
    std::lock_guard const lock{mutex_};
    closed_ = true;
    frames_.close();
    written_.notify_all();
  }

  /// Writes until the outbox is closed and empty; then says goodbye and writes no more. Once only.
  ///
  /// Cancel: terminal; throws `std::system_error`.
  /// Errors: `std::system_error` when the connection breaks.
  [[nodiscard("co_await the result")]] auto write_to(SocketStream& stream) -> asio::awaitable<void> {
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

 private:
  /// Frames up to this size are written together.
  static constexpr std::size_t gather_bytes = std::size_t{64} << 10U;

  auto add(Frame frame) -> bool {
    if (closed_) return false;
    bytes_ += frame->size();
    return frames_.push(std::move(frame));
  }

  void count_written(std::size_t count) {
    std::lock_guard const lock{mutex_};
    bytes_ -= count;
    written_.notify_all();
  }

  Channel<Frame> frames_;
  std::mutex mutex_;
  std::condition_variable written_;
  std::size_t bytes_ = 0;
  bool closed_ = false;
};

}  // namespace raytrain::detail
