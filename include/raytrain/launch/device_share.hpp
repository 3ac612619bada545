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

/// Which of its host's devices a worker gets, and how many workers share each.
struct DeviceShare {
  std::vector<int> devices;
  std::uint32_t workers = 1;
};

/// What a worker asks of its host's devices.
struct DeviceClaim {
  std::uint32_t worker = 0;          ///< Its number among
  std::uint32_t workers = 1;         ///< those that divide the devices.
  double gpus = 1;                   ///< For each of them.
  int devices = 0;                   ///< That there are.
  std::vector<std::string> names{};  ///< Of the devices; empty where they are not known.
  bool may_share = true;             ///< Whether several workers may have parts of one.
};

/// Errors: `invalid_config` where there are too few devices for so many workers, with those that there are, and where
///         workers would share one that may not.
[[nodiscard]] auto share_devices(DeviceClaim const& claim) -> DeviceShare;

/// What each worker asks for as far as this process can tell by itself, before one has started: a launcher may have
/// left other ranks of the host other GPUs to see. Without the devices.
[[nodiscard]] auto expected_claim(ScalingConfig const& scaling) -> DeviceClaim;

/// What this worker asks for, among those of its host that see the same GPUs. Without the devices. A group operation.
[[nodiscard]] auto own_claim(ScalingConfig const& scaling, Collective& collective, Placement const& placement)
    -> DeviceClaim;

/// A worker's device, and the names of all that it sees, as in `DeviceClaim`.
struct NamedDevice {
  Rank rank;
  int device;
  std::vector<std::string> const& names;
};

/// Errors: `invalid_config` for a device whose name is not of `ScalingConfig::accelerator_type`.
void check_accelerator(ScalingConfig const& scaling, NamedDevice const& own);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/device_share-inl.hpp>
#endif
