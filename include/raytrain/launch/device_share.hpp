// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/worker_link.hpp>

namespace raytrain::detail {

/// What a worker asks of its host's GPUs.
struct DeviceClaim {
  std::uint32_t worker = 0;   ///< This worker's index, from 0, among the workers that share these GPUs.
  std::uint32_t workers = 1;  ///< How many such workers.
  double gpus = 1;            ///< GPUs per worker; may be a fraction.
};

/// The GPUs that this process sees.
struct HostDevices {
  int count = 0;
  std::vector<std::string> names{};  ///< One for each GPU; empty where they are not known.
  bool may_share = true;             ///< Whether several workers may have parts of one GPU.
};

/// Which of its host's GPUs a worker gets.
struct DeviceShare {
  std::vector<int> devices;          ///< Their indices, from 0.
  std::vector<std::string> names{};  ///< One for each of `devices`; empty where they are not known.
  std::uint32_t workers = 1;         ///< How many workers use each of `devices`, this one with them.
};

/// GPUs that each worker asks for by `ScalingConfig::resources_per_worker`; 1 where that says nothing.
[[nodiscard]] auto gpus_of(ScalingConfig const& scaling) noexcept -> double;

/// Errors: `invalid_config` where there are too few devices for so many workers, with those that there are, and where
///         workers would share one that may not.
[[nodiscard]] auto share_devices(DeviceClaim const& claim, HostDevices const& host) -> DeviceShare;

/// The claim as this process can guess it before workers start. If the launcher may give each rank other GPUs
/// (CUDA_VISIBLE_DEVICES is set), it counts one worker only; `own_claim` is exact.
[[nodiscard]] auto expected_claim(ScalingConfig const& scaling) -> DeviceClaim;

/// What this worker asks for, among those of its host that see the same GPUs. A group operation.
[[nodiscard]] auto own_claim(ScalingConfig const& scaling, Collective& collective, Placement const& placement)
    -> DeviceClaim;

/// Checks each of a worker's GPUs; nothing where their names are not known.
///
/// Errors: `invalid_config` for a GPU whose name is not of `ScalingConfig::accelerator_type`.
void check_accelerator(ScalingConfig const& scaling, Rank rank, DeviceShare const& own);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/device_share-inl.hpp>
#endif
