// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/sockets.hpp>
#include <raytrain/launch/detail/control_outbox.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto ControlOutbox::push(Frame frame) -> bool {
  std::lock_guard const lock{mutex_};
  return add(std::move(frame));
}

RAYTRAIN_INLINE auto ControlOutbox::push_when_below(std::size_t limit_bytes, Frame frame) -> bool {
  std::unique_lock lock{mutex_};
  written_.wait(lock, [&] { return closed_ || bytes_ <= limit_bytes; });
  return add(std::move(frame));
}

RAYTRAIN_INLINE auto ControlOutbox::bytes() -> std::size_t {
  std::lock_guard const lock{mutex_};
  return bytes_;
}

RAYTRAIN_INLINE void ControlOutbox::close() {
  std::lock_guard const lock{mutex_};
  closed_ = true;
  frames_.close();
  written_.notify_all();
}

RAYTRAIN_INLINE void ControlOutbox::write_here(SocketStream& stream) {
  std::lock_guard const lock{mutex_};
  stream_ = &stream;
}

RAYTRAIN_INLINE auto ControlOutbox::add(Frame frame) -> bool {
  if (closed_) return false;
  auto const now = clock_.now();
  auto const since_last = now - std::exchange(last_, now);
  if (since_last >= close_together && bytes_ == 0 && stream_ != nullptr) {
    auto const written = stream_->try_write(*frame);
    if (written == frame->size()) return true;
    auto const rest = BytesView{*frame}.subspan(written);
    frame = std::make_shared<Bytes const>(rest.begin(), rest.end());
  }
  bytes_ += frame->size();
  return frames_.push(std::move(frame));
}

RAYTRAIN_INLINE void ControlOutbox::count_written(std::size_t count) {
  std::lock_guard const lock{mutex_};
  bytes_ -= count;
  written_.notify_all();
}

}  // namespace raytrain::detail
