// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <raytrain/collective/collective.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/device_share.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/object_exchange.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto gpus_of(ScalingConfig const& scaling) noexcept -> double {
  auto const gpus = scaling.resources_per_worker.gpus;
  return gpus > 0 ? gpus : 1;
}

/// " (0: NVIDIA H200, 1: NVIDIA H200)" where so many are known by name.
RAYTRAIN_INLINE auto listed_devices(DeviceClaim const& claim) -> std::string {
  auto const& names = claim.names;
  if (names.empty() || names.size() != static_cast<std::size_t>(claim.devices)) return {};
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) text += fmt::format("{}{}: {}", i == 0 ? " (" : ", ", i, names[i]);
  return text + ')';
}

RAYTRAIN_INLINE auto share_devices(DeviceClaim const& claim) -> DeviceShare {
  auto const& [worker, workers, gpus, devices, names, may_share] = claim;
  auto const available = static_cast<std::uint64_t>(std::max(devices, 0));
  auto const each = static_cast<std::uint64_t>(std::max(1.0, gpus));
  constexpr double rounding = 1e-9;  // of 1.0 / 49
  auto const on_one = gpus < 1 ? static_cast<std::uint64_t>(1 / gpus + rounding) : 1;
  if (!may_share && workers > 1 && on_one > 1) {
    throw Error{Errc::invalid_config, "ScalingConfig::resources_per_worker.gpus",
                fmt::format("is {}, and each of these {} workers needs a GPU of its own", gpus, workers),
                "write 1, and use one worker for each GPU"};
  }
  if (std::uint64_t{workers} > available / each * on_one) {
    throw Error{Errc::invalid_config, "ScalingConfig::resources_per_worker.gpus",
                fmt::format("{} workers of this host ask for {} GPUs each, and it has {}{}", workers, gpus, devices,
                            listed_devices(claim)),
                fmt::format("use {} workers here{}", std::max<std::uint64_t>(1, available / each * on_one),
                            may_share ? ", or write a smaller number, as 0.5 for two workers on each GPU" : "")};
  }
  DeviceShare share;
  if (gpus >= 1) {
    for (std::uint64_t i = 0; i < each; ++i) share.devices.push_back(static_cast<int>(worker * each + i));
    return share;
  }
  auto const device = worker / on_one;
  share.devices = {static_cast<int>(device)};
  share.workers = static_cast<std::uint32_t>(std::min<std::uint64_t>(on_one, workers - device * on_one));
  return share;
}

RAYTRAIN_INLINE auto expected_claim(ScalingConfig const& scaling) -> DeviceClaim {
  DeviceClaim claim{.gpus = gpus_of(scaling)};
  auto const job = job_environment();
  auto const is_alone = !job || job->size == WorldSize{1};
  if (scaling.launch == Launch::threads || (scaling.launch == Launch::automatic && is_alone)) {
    claim.workers = scaling.world_size().value;
    return claim;
  }
  auto const* const local = std::getenv("LOCAL_WORLD_SIZE");  // set for every worker that is a process
  auto const may_see_others = scaling.launch != Launch::processes && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
  if (local == nullptr || may_see_others) return claim;
  claim.workers = static_cast<std::uint32_t>(std::max(1UL, std::strtoul(local, nullptr, 10)));
  return claim;
}

RAYTRAIN_INLINE auto own_claim(ScalingConfig const& scaling, Collective& collective, Placement const& placement)
    -> DeviceClaim {
  // Launchers may leave each rank its own GPUs to see, or all of them to each.
  auto const* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  auto const own = fmt::format("{} {}", placement.node_rank.value, visible == nullptr ? "" : visible);
  auto const all = all_gather_objects(collective, own);
  auto const same = std::ranges::count(all, own);
  auto const before =
      std::count(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(placement.world_rank.value), own);
  return {.worker = static_cast<std::uint32_t>(before),
          .workers = static_cast<std::uint32_t>(same),
          .gpus = gpus_of(scaling)};
}

RAYTRAIN_INLINE void check_accelerator(ScalingConfig const& scaling, NamedDevice const& own) {
  auto const& wanted = scaling.accelerator_type;
  auto const index = static_cast<std::size_t>(own.device);
  if (index >= own.names.size() || own.names[index].find(wanted) != std::string::npos) return;
  throw Error{
      Errc::invalid_config, "ScalingConfig::accelerator_type",
      fmt::format("is '{}', and cuda:{} of rank {} is '{}'", wanted, own.device, own.rank.value, own.names[index]),
      "leave it out, or write a part of the name that nvidia-smi lists"};
}

}  // namespace raytrain::detail
