// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <ranges>
#include <utility>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/chain.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

RAYTRAIN_INLINE void Chain::fit(FitRows const& rows) {
  auto fitted = steps_;
  auto seen = rows;
  for (auto step = fitted.begin(); step != fitted.end(); ++step) {
    step->fit(seen);
    auto const next = step + 1;
    if (next == fitted.end()) break;
    auto const transform = [step](Dataset const& made) { return step->transform(made); };
    if (std::ranges::any_of(next, fitted.end(), &AnyPreprocessor::learns_from_rows)) {
      seen = seen.through(transform);
    } else {
      seen = seen.without_rows().through(transform);
    }
  }
  steps_ = std::move(fitted);
}

RAYTRAIN_INLINE auto Chain::is_fitted() const -> bool {
  return std::ranges::all_of(steps_, &AnyPreprocessor::is_fitted);
}

RAYTRAIN_INLINE auto Chain::learns_from_rows() const -> bool {
  return std::ranges::any_of(steps_, &AnyPreprocessor::learns_from_rows);
}

RAYTRAIN_INLINE auto Chain::transform(Dataset const& dataset) const -> Dataset {
  auto result = dataset;
  for (auto const& step : steps_) result = step.transform(result);
  return result;
}

RAYTRAIN_INLINE auto Chain::inverse_transform(Dataset const& dataset) const -> Dataset {
  auto result = dataset;
  for (auto const& step : steps_ | std::views::reverse) result = step.inverse_transform(result);
  return result;
}

}  // namespace raytrain
