// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>

#include <raytrain/backend/torch/thread_advice.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE auto thread_advice(WorldSize workers, int cpus_per_worker, unsigned cores)
    -> std::optional<std::string> {
  auto const threads = static_cast<std::uint64_t>(workers.value) * static_cast<std::uint64_t>(cpus_per_worker);
  if (cores == 0 || threads <= cores) return std::nullopt;
  auto const text =
      fmt::format("{} workers with {} {} each share {} {}, which slows all of them down; ", workers.value,
                  cpus_per_worker, cpus_per_worker == 1 ? "thread" : "threads", cores, cores == 1 ? "core" : "cores");
  if (workers.value > cores) return text + fmt::format("write .num_workers = {} or fewer", cores);
  return text +
         fmt::format("write .resources_per_worker = {{.cpus = {}}}, or 0 for an equal share", cores / workers.value);
}

}  // namespace raytrain
