// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/device_share.hpp>

/// What each of several processes that share a GPU may take of its memory.
namespace raytrain::detail {

/// Of a GPU's memory; none where all workers that share it are threads of this process, which share LibTorch's
/// allocator too. `of_process`: workers of this process.
[[nodiscard]] auto memory_fraction(DeviceShare const& share, WorldSize of_process) noexcept -> std::optional<double>;

/// LibTorch's allocator of GPU memory, as far as it can be told of a limit.
struct MemoryLimiter {
  bool has_limit = false;  ///< Whether it knows of one. LibTorch's has known since version 2.10.
  bool is_used = false;    ///< Whether it has given out memory, and so does not look at its settings any more.
  std::string settings{};  ///< What it was told last, by the environment or the program.
  std::function<void(std::string const&)> set{};  ///< Tells it all settings anew.

  [[nodiscard]] static auto of_libtorch() -> MemoryLimiter;
};

/// Tells the allocator that it may take this part of each GPU's memory, unless its settings name a part already.
///
/// Returns what to warn of where that was not possible.
/// Errors: what `set` throws.
[[nodiscard]] auto limit_memory(double fraction, MemoryLimiter const& limiter) -> std::optional<std::string>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/memory_share-inl.hpp>
#endif
