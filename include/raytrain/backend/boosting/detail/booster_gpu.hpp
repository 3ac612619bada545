// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/launch/device_share.hpp>
#include <raytrain/launch/gpu_driver.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

/// The claim, to the GPUs that the driver tells of. Workers that boost together do not share one: XGBoost's exchange by
/// NCCL, which takes each GPU once.
[[nodiscard]] inline auto with_gpus_of(GpuDriver const& driver, DeviceClaim claim) -> DeviceClaim {
  claim.may_share = false;
  claim.devices = static_cast<int>(driver.gpus.size());
  for (auto const& gpu : driver.gpus) claim.names.push_back(gpu.name);
  return claim;
}

/// Before any worker starts. `library`: the one that boosts.
///
/// Errors: `invalid_config` for several GPUs for one booster, where there is none, with the reason, and as
///         `share_devices`, as far as it can be told by then.
inline void check_booster_gpus(ScalingConfig const& scaling, GpuLibrary const& library) {
  auto const claim = expected_claim(scaling);
  constexpr double rounding = 1e-9;  // of seven times 1.0 / 7
  if (claim.gpus > 1 + rounding) {
    throw Error{Errc::invalid_config, "ScalingConfig::resources_per_worker.gpus",
                fmt::format("makes {} GPUs for one booster, which {} trains on one (on threads one booster trains, "
                            "with what all workers ask for)",
                            claim.gpus, library.name),
                "use one worker with one GPU; for more of them give each worker a process, by Launch::processes or "
                "ranks"};
  }
  auto const driver = GpuDriver::ask();
  auto const* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  auto const problem =
      driver_problem(driver, library, visible == nullptr ? std::nullopt : std::optional<std::string>{visible});
  if (problem) {
    throw Error{Errc::invalid_config, "ScalingConfig::use_gpu", "is set, and " + problem->happened,
                problem->remedy + "; or leave use_gpu out to train on the CPU"};
  }
  (void)share_devices(with_gpus_of(driver, claim));
}

/// The GPU on which this worker boosts, by its number among those that CUDA_VISIBLE_DEVICES leaves to see; none without
/// `ScalingConfig::use_gpu`. With it a group operation.
///
/// Errors: as `share_devices` and `check_accelerator`.
[[nodiscard]] inline auto own_booster_gpu(ScalingConfig const& scaling, WorkerSetup const& setup)
    -> std::optional<int> {
  if (!scaling.use_gpu) return std::nullopt;
  auto const& placement = setup.link.placement();
  auto const claim = with_gpus_of(GpuDriver::ask(), own_claim(scaling, *setup.collective, placement));
  auto const gpu = share_devices(claim).devices.front();
  check_accelerator(scaling, {placement.world_rank, gpu, claim.names});
  return gpu;
}

}  // namespace raytrain::detail
