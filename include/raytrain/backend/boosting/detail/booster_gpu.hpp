// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <optional>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/launch/device_share.hpp>
#include <raytrain/launch/gpu_driver.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

/// The GPUs that the driver tells of. Workers that boost together do not share one: XGBoost's exchange by NCCL, which
/// takes each GPU once.
[[nodiscard]] inline auto boosters_gpus(GpuDriver const& driver) -> HostDevices {
  HostDevices host{.count = static_cast<int>(driver.gpus.size()), .may_share = false};
  for (auto const& gpu : driver.gpus) host.names.push_back(gpu.name);
  return host;
}

/// Before any worker starts. `library`: the one that boosts.
///
/// Errors: `invalid_config` for several GPUs for one booster, where there is none, with the reason, and as
///         `share_devices`, as far as it can be told by then.
inline void check_booster_gpus(ScalingConfig const& scaling, GpuLibrary const& library) {
  auto const claim = expected_claim(scaling);
  constexpr double rounding = 1e-9;  // of seven times 1.0 / 7
  if (claim.gpus > 1 + rounding) {
    throw Error{
        Errc::invalid_config, "ScalingConfig::resources_per_worker.gpus",
        fmt::format("asks for {:.4g} GPUs for one booster; {} uses one (on threads one booster trains, with what "
                    "all workers ask for)",
                    claim.gpus, library.name),
        "use one worker with one GPU; for more of them give each worker a process, by Launch::processes or "
        "ranks"};
  }
  auto const driver = GpuDriver::ask();
  if (auto const problem = driver_problem(driver, library)) refuse_use_gpu(*problem);
  (void)share_devices(claim, boosters_gpus(driver));
}

/// The GPU on which this worker boosts, by its number among those that CUDA_VISIBLE_DEVICES leaves to see; none without
/// `ScalingConfig::use_gpu`. With it a group operation.
///
/// Errors: as `share_devices` and `check_accelerator`.
[[nodiscard]] inline auto own_booster_gpu(ScalingConfig const& scaling, WorkerSetup const& setup)
    -> std::optional<int> {
  if (!scaling.use_gpu) return std::nullopt;
  auto const& placement = setup.link.placement();
  auto const own = share_devices(own_claim(scaling, *setup.collective, placement), boosters_gpus(GpuDriver::ask()));
  check_accelerator(scaling, placement.world_rank, own);
  return own.devices.front();
}

}  // namespace raytrain::detail
