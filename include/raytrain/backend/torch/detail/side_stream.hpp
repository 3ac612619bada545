// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <optional>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace raytrain::detail {

/// A stream of a device, for work that goes on beside another thread's current one. On the CPU work is done at once.
///
/// Threads: `follow` and `join` by that thread, `run` by any.
class SideStream {
 public:
  explicit SideStream(at::Device device) : device_{device} {
    if (device.is_cpu()) return;
    stream_ = c10::impl::VirtualGuardImpl{device.type()}.getStreamFromGlobalPool(device);
    before_.emplace(device.type());
    behind_.emplace(device.type());
  }

  /// What is put on this stream from now on begins behind all that is on the current one.
  void follow() {
    if (!stream_) return;
    before_->record(c10::impl::VirtualGuardImpl{device_.type()}.getStream(device_));
    before_->block(*stream_);
  }

  /// Of a device that is not the CPU.
  [[nodiscard]] auto stream() const -> c10::Stream { return stream_.value(); }

  /// Calls `work`, which puts operations on this stream.
  template <class F>
  void run(F const& work) const {
    if (!stream_) return work();
    c10::StreamGuard const here{*stream_};
    work();
  }

  /// What is put on the current stream from now on begins behind all that was put on this one.
  void join() {
    if (!stream_) return;
    behind_->record(*stream_);
    behind_->block(c10::impl::VirtualGuardImpl{device_.type()}.getStream(device_));
  }

 private:
  at::Device device_;
  std::optional<c10::Stream> stream_;
  std::optional<c10::Event> before_;
  std::optional<c10::Event> behind_;
};

}  // namespace raytrain::detail
