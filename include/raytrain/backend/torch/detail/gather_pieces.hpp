// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/backend/torch/detail/optimizer_slice.hpp>
#include <raytrain/backend/torch/detail/stored_optimizer.hpp>
#include <raytrain/collective/collective.hpp>

namespace raytrain::detail {

/// What the ranks' slices have of the parameters, on rank 0: whole tensors, and values. A group operation of
/// `collective`.
///
/// `on_device`: of arrays where the parameters are, null for those in CPU memory. The tensors are on the device then,
/// and nothing waits for it, unless arrays leave it or a rank has no room there.
///
/// Errors: as `OptimizerSlice::states`, and as the collectives.
/// Cost:   through CPU memory, what rank 0 gets twice, and elsewhere this rank's part. On the device once, and on each
///         rank the largest part of a rank; each part is sent to all.
[[nodiscard]] auto gather_pieces(OptimizerSlice const& slice, Collective& collective, DeviceArrays* on_device)
    -> std::optional<OptimizerState>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/gather_pieces-inl.hpp>
#endif
