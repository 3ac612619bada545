// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <optional>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace raytrain::detail {

/// A stream of a device, for work that goes on beside the thread's current one. On the CPU work is done at once.
///
/// Threads: one at a time.
class SideStream {
 public:
  explicit SideStream(at::Device device) : device_{device} {
    if (device.is_cpu()) return;
    stream_ = c10::impl::VirtualGuardImpl{device.type()}.getStreamFromGlobalPool(device);
    before_.emplace(device.type());
    behind_.emplace(device.type());
  }

  /// Calls `work`, which puts operations on this stream: behind all that is on the current one now.
  template <class F>
  void run(F const& work) {
    if (!stream_) return work();
    c10::impl::VirtualGuardImpl const guard{device_.type()};
    before_->record(guard.getStream(device_));
    before_->block(*stream_);
    struct Back {
      c10::Stream former;
      ~Back() { c10::impl::VirtualGuardImpl{former.device_type()}.exchangeStream(former); }
    };
    Back const back{guard.exchangeStream(*stream_)};
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
