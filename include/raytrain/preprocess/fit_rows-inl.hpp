// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

namespace detail {

/// Few enough to be sent to every worker, and enough for many workers.
inline constexpr std::size_t most_fit_blocks = 256;
inline constexpr std::size_t fewest_fit_block_rows = 1024;

[[nodiscard]] inline auto fit_block_rows(std::size_t rows) noexcept -> std::size_t {
  return std::max(fewest_fit_block_rows, (rows + most_fit_blocks - 1) / most_fit_blocks);
}

}  // namespace detail

RAYTRAIN_INLINE FitRows::FitRows(Dataset const& dataset)
    : dataset_{dataset}, block_rows_{detail::fit_block_rows(dataset.rows())} {}

RAYTRAIN_INLINE FitRows::FitRows(Dataset const& dataset, Part part, AllGather all_gather)
    : block_rows_{detail::fit_block_rows(dataset.rows())}, all_gather_{std::move(all_gather)} {
  auto const blocks = (dataset.rows() + block_rows_ - 1) / block_rows_;
  auto const begin_of = [&](std::size_t worker) {
    return std::min(dataset.rows(), worker * blocks / part.world_size.value * block_rows_);
  };
  auto const first = begin_of(part.rank.value);
  dataset_ = dataset.split_at(first).second.head(begin_of(part.rank.value + std::size_t{1}) - first);
}

}  // namespace raytrain
