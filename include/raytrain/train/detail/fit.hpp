// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/train/detail/fit_plan.hpp>
#include <raytrain/train/result.hpp>

namespace raytrain::detail {

/// Errors: as `Trainer::fit`.
auto fit(FitPlan const& plan) -> Result;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/fit-inl.hpp>
#endif
