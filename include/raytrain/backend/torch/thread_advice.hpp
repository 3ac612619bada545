// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <fmt/format.h>

#include <raytrain/core/rank.hpp>

namespace raytrain {

/// What to do when the workers of one host want more threads than it has cores; nothing when they do not.
[[nodiscard]] auto thread_advice(WorldSize workers, int cpus_per_worker, unsigned cores) -> std::optional<std::string>;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/thread_advice-inl.hpp>
#endif
