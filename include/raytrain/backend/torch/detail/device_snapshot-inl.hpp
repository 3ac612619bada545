// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <raytrain/backend/torch/detail/device_snapshot.hpp>
#include <raytrain/backend/torch/detail/side_stream.hpp>
#include <raytrain/backend/torch/detail/tensor_over.hpp>
#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/collective/waiting.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

/// Pieces of one device that lie side by side in the file, and there, too.
struct DeviceRun {
  at::Device device;
  std::size_t begin_bytes{};
  std::size_t size_bytes{};
  std::vector<DeviceSnapshot::Piece const*> pieces;
  at::Tensor copy;  ///< Bytes.
};

RAYTRAIN_TORCH_INLINE auto device_runs(std::vector<DeviceSnapshot::Piece> const& pieces) -> std::list<DeviceRun> {
  std::list<DeviceRun> runs;
  for (auto const& piece : pieces) {
    auto const device = piece.tensor.device();
    auto const goes_on = !runs.empty() && runs.back().device == device &&
                         runs.back().begin_bytes + runs.back().size_bytes == piece.begin_bytes;
    if (!goes_on) runs.push_back({device, piece.begin_bytes, 0, {}, {}});
    runs.back().size_bytes += piece.tensor.nbytes();
    runs.back().pieces.push_back(&piece);
  }
  return runs;
}

RAYTRAIN_TORCH_INLINE auto DeviceSnapshot::take(std::vector<Piece> const& pieces, std::size_t file_bytes)
    -> std::optional<DeviceSnapshot> {
  torch::NoGradGuard const no_grad;
  auto runs = device_runs(pieces);
  DeviceSnapshot snapshot;
  auto const bytes = at::TensorOptions{at::kByte};
  try {
    snapshot.file = at::empty({static_cast<std::int64_t>(file_bytes)}, bytes.pinned_memory(true));
    for (auto& run : runs) {
      run.copy = at::empty({static_cast<std::int64_t>(run.size_bytes)}, bytes.device(run.device));
    }
  } catch (c10::Error const&) {
    return std::nullopt;
  }
  struct CopyEnd {
    at::Device device;
    c10::Event event;
  };
  auto const ends = std::make_shared<std::list<CopyEnd>>();
  for (auto const& run : runs) {
    auto* const begin = static_cast<std::byte*>(run.copy.data_ptr());
    for (auto const* const piece : run.pieces) {
      tensor_over(begin + (piece->begin_bytes - run.begin_bytes), piece->tensor.sizes(), piece->tensor.scalar_type(),
                  run.device)
          .copy_(piece->tensor, /*non_blocking=*/true);
    }
    SideStream copying{run.device};
    copying.follow();
    copying.run([&] {
      auto const place = snapshot.file.narrow(0, static_cast<std::int64_t>(run.begin_bytes),
                                              static_cast<std::int64_t>(run.size_bytes));
      place.copy_(run.copy, /*non_blocking=*/true);
    });
    // LibTorch gives the device's memory out again when this stream, too, is done with it.
    run.copy.record_stream(copying.stream());
    ends->push_back({run.device, c10::Event{run.device.type()}});
    ends->back().event.record(copying.stream());
  }
  snapshot.complete = [ends](CheckpointDraft::IsGivenUp const& is_given_up) {
    torch_call("copying a checkpoint from a device", [&] {
      Backoff backoff{CoreUse::shared};
      for (auto const& [device, event] : *ends) {
        // LibTorch sets the thread's device back to what it was, and CUDA takes memory of each device that is set.
        c10::impl::VirtualGuardImpl{device.type()}.uncheckedSetDevice(device);
        while (!event.query()) {
          if (is_given_up()) throw Stopped{};
          (void)backoff.pause();
        }
      }
      if (is_given_up()) throw Stopped{};
      ends->clear();
    });
  };
  return snapshot;
}

}  // namespace raytrain::detail
