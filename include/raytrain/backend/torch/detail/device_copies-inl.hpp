// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <raytrain/backend/torch/detail/device_copies.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE DeviceCopies::DeviceCopies(torch::Device device) : device_{device} {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl const devices{device.type()};
  if (!device.has_index()) device_ = devices.getDevice();
  stream_ = devices.getStreamFromGlobalPool(device_);
}

RAYTRAIN_TORCH_INLINE auto DeviceCopies::to_device(at::Tensor const& on_cpu) const -> at::Tensor {
  if (!stream_) return on_cpu;
  auto const computing = c10::impl::VirtualGuardImpl{device_.type()}.getStream(device_);
  auto const copied = [&] {
    c10::StreamGuard const copying{*stream_};
    return on_cpu.to(device_, /*non_blocking=*/true);
  }();
  c10::Event is_there{device_.type()};
  is_there.record(*stream_);
  is_there.block(computing);
  // LibTorch gives the memory out again when both streams are done with it: this one, and the one it belongs to.
  copied.record_stream(computing);
  return copied;
}

}  // namespace raytrain::detail
