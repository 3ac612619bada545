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
    : source_{dataset}, block_rows_{detail::fit_block_rows(dataset.rows())} {}

RAYTRAIN_INLINE FitRows::FitRows(Dataset const& dataset, Part part, AllGather all_gather)
    : block_rows_{detail::fit_block_rows(dataset.rows())}, all_gather_{std::move(all_gather)} {
  auto const blocks = (dataset.rows() + block_rows_ - 1) / block_rows_;
  auto const begin_of = [&](std::size_t worker) {
    return std::min(dataset.rows(), worker * blocks / part.world_size.value * block_rows_);
  };
  auto const first = begin_of(part.rank.value);
  source_ = dataset.split_at(first).second.head(begin_of(part.rank.value + std::size_t{1}) - first);
}

RAYTRAIN_INLINE auto FitRows::after_steps(Dataset rows) const -> Dataset {
  for (auto const& step : steps_) rows = step(rows);
  return rows;
}

RAYTRAIN_INLINE auto FitRows::dataset() const -> Dataset const& {
  if (steps_.empty()) return source_;
  if (!made_->all) made_->all = after_steps(source_);
  return *made_->all;
}

RAYTRAIN_INLINE auto FitRows::layout() const -> Dataset const& {
  if (!made_->layout) made_->layout = after_steps(source_.head(0));
  return *made_->layout;
}

RAYTRAIN_INLINE auto FitRows::block(std::size_t first) const -> Dataset {
  auto const of = [&](Dataset const& rows) { return rows.split_at(first).second.head(block_rows_); };
  return is_made() ? of(dataset()) : after_steps(of(source_));
}

RAYTRAIN_INLINE auto FitRows::through(Transform transform) const -> FitRows {
  auto result = *this;
  result.steps_.push_back(std::move(transform));
  result.made_ = std::make_shared<Made>();
  return result;
}

RAYTRAIN_INLINE auto FitRows::transformed(Transform const& transform) const -> FitRows {
  return replaced_by(transform(dataset()));
}

RAYTRAIN_INLINE auto FitRows::without_rows() const -> FitRows { return replaced_by(layout()); }

RAYTRAIN_INLINE auto FitRows::replaced_by(Dataset rows) const -> FitRows {
  auto result = *this;
  result.source_ = std::move(rows);
  result.steps_.clear();
  result.made_ = std::make_shared<Made>();
  return result;
}

}  // namespace raytrain
