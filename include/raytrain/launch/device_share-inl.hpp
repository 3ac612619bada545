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
RAYTRAIN_INLINE auto listed_devices(HostDevices const& host) -> std::string {
  auto const& names = host.names;
  if (names.empty() || names.size() != static_cast<std::size_t>(host.count)) return {};
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) text += fmt::format("{}{}: {}", i == 0 ? " (" : ", ", i, names[i]);
  return text + ')';
}

/// "1 GPU", "2 GPUs", "0.3333 GPUs".
RAYTRAIN_INLINE auto counted_gpus(double gpus) -> std::string {
  return gpus < 1 ? fmt::format("{:.4g} GPUs", gpus) : fmt::format("{:.0f} GPU{}", gpus, gpus == 1 ? "" : "s");
}

/// What is wrong with a claim to more GPUs than there are.
RAYTRAIN_INLINE auto excess_of(DeviceClaim const& claim, HostDevices const& host) -> std::string {
  auto const there_are = host.count > 0 ? std::to_string(host.count) : "none";
  auto const gpus = counted_gpus(claim.gpus);
  return (claim.workers == 1
              ? fmt::format("a worker asks for {}, and this host has {}", gpus, there_are)
              : fmt::format("{} workers of this host ask for {} each, and it has {}", claim.workers, gpus, there_are)) +
         listed_devices(host);
}

/// What to do about a claim to more GPUs than there are, which have room for `fitting` such workers.
RAYTRAIN_INLINE auto remedy_of_excess(DeviceClaim const& claim, HostDevices const& host, std::uint64_t fitting)
    -> std::string {
  if (host.count <= 0) return "run it on hosts with GPUs, or leave use_gpu out to train on the CPU";
  auto const available = static_cast<std::uint32_t>(host.count);
  auto const there_are = fitting > 0 ? fitting : available;
  auto const fewer = fmt::format("use {} worker{} here{}", there_are, there_are == 1 ? "" : "s",
                                 fitting > 0 ? "" : " with 1 GPU each");
  if (claim.workers <= available && claim.gpus > 1) {
    auto const smaller = "ask for at most " + counted_gpus(available / claim.workers) + " per worker";
    return fitting > 0 ? fewer + ", or " + smaller : smaller;
  }
  if (!host.may_share) return fewer;
  auto const on_each = (claim.workers - 1) / available + 1;
  return fmt::format("{}, or write 1.0 / {}, by which {} workers share each GPU", fewer, on_each, on_each);
}

RAYTRAIN_INLINE auto share_devices(DeviceClaim const& claim, HostDevices const& host) -> DeviceShare {
  auto const& [worker, workers, gpus] = claim;
  auto const available = static_cast<std::uint64_t>(std::max(host.count, 0));
  auto const each = static_cast<std::uint64_t>(std::max(1.0, gpus));
  constexpr double rounding = 1e-9;  // of 1.0 / 49
  auto const on_one = gpus < 1 ? static_cast<std::uint64_t>(1 / gpus + rounding) : 1;
  if (!host.may_share && workers > 1 && on_one > 1) {
    throw Error{Errc::invalid_config, "ScalingConfig::resources_per_worker.gpus",
                fmt::format("is {:.4g}, and each of these {} workers needs a GPU of its own", gpus, workers),
                "write 1, and use one worker for each GPU"};
  }
  if (std::uint64_t{workers} > available / each * on_one) {
    throw Error{Errc::invalid_config, "ScalingConfig::resources_per_worker.gpus", excess_of(claim, host),
                remedy_of_excess(claim, host, available / each * on_one)};
  }
  DeviceShare share;
  if (gpus >= 1) {
    for (std::uint64_t i = 0; i < each; ++i) share.devices.push_back(static_cast<int>(worker * each + i));
  } else {
    auto const device = worker / on_one;
    share.devices = {static_cast<int>(device)};
    share.workers = static_cast<std::uint32_t>(std::min<std::uint64_t>(on_one, workers - device * on_one));
  }
  if (host.names.size() != available) return share;
  for (auto const device : share.devices) share.names.push_back(host.names[static_cast<std::size_t>(device)]);
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
  auto const ranks_may_see_different_gpus =
      scaling.launch != Launch::processes && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
  if (local == nullptr || ranks_may_see_different_gpus) return claim;
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

RAYTRAIN_INLINE void check_accelerator(ScalingConfig const& scaling, Rank rank, DeviceShare const& own) {
  auto const& wanted = scaling.accelerator_type;
  for (std::size_t i = 0; i < own.names.size(); ++i) {
    if (own.names[i].find(wanted) != std::string::npos) continue;
    throw Error{
        Errc::invalid_config, "ScalingConfig::accelerator_type",
        fmt::format("is '{}', and cuda:{} of rank {} is '{}'", wanted, own.devices[i], rank.value, own.names[i]),
        "leave it out, or write a part of the name that nvidia-smi lists"};
  }
}

}  // namespace raytrain::detail
