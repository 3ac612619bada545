// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/backend/torch/detail/optimizer_slice.hpp>
#include <raytrain/backend/torch/detail/stored_optimizer.hpp>
#include <raytrain/collective/collective.hpp>

namespace raytrain::detail {

/// The optimizer's whole state, gathered on rank 0 from the ranks' slices; none on the others. A group operation of
/// `collective`.
///
/// `on_device`: the collective of the device where the parameters are; null in CPU memory. With it the tensors stay on
/// the device and nobody waits for it, unless its broadcasts go through CPU memory or some rank has no room.
///
/// Errors: as `OptimizerSlice::states`, and as the collectives.
/// Cost:   on each rank, memory for the largest rank's part. On rank 0 also the whole state; through CPU memory about
///         twice. On the device each part is broadcast, so that all ranks get it.
[[nodiscard]] auto gather_pieces(OptimizerSlice const& slice, Collective& collective, DeviceArrays* on_device)
    -> std::optional<OptimizerState>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/gather_pieces-inl.hpp>
#endif
