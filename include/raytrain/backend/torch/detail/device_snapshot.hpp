// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <optional>
#include <vector>

#include <raytrain/checkpoint/checkpoint_draft.hpp>

namespace raytrain::detail {

/// Memory of a file to which devices copy tensors while they go on with other work.
struct DeviceSnapshot {
  /// A tensor of a device, and where it goes to.
  struct Piece {
    at::Tensor tensor;
    std::size_t begin_bytes{};  ///< A multiple of the size of its elements.
  };

  /// Takes the tensors as they are behind all that was put on the calling thread's streams: first to memory of their
  /// devices, where the program may then change them; from there to pinned memory, on streams of their own.
  ///
  /// `pieces`: by their begins; at least one.
  /// Errors: `c10::Error`. None where a device has no room for a copy, or the host no pinned memory.
  /// Cost:   does not wait for a device.
  [[nodiscard]] static auto take(std::vector<Piece> const& pieces, std::size_t file_bytes)
      -> std::optional<DeviceSnapshot>;

  at::Tensor file;  ///< Bytes, of which the pieces' are not there yet.
  /// Returns when they are. What was given up before is not to be trusted: a device that was not let end its work goes
  /// on with wrong numbers. The calling thread's device is then one of theirs.
  ///
  /// Errors: `Stopped` where it is given up; `backend` when a device has failed.
  CheckpointDraft::Complete complete;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/device_snapshot-inl.hpp>
#endif
