// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include <raytrain/core/inline.hpp>
#include <raytrain/train/batch_sizes.hpp>

namespace raytrain {

RAYTRAIN_INLINE void BatchSizes::set(std::string const& dataset, std::uint64_t batch_size) {
  std::lock_guard const lock{mutex_};
  sizes_[dataset] = batch_size;
}

RAYTRAIN_INLINE auto BatchSizes::all() const -> std::map<std::string, std::uint64_t> {
  std::lock_guard const lock{mutex_};
  return sizes_;
}

}  // namespace raytrain
