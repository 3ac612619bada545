// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <raytrain/collective/collective.hpp>

namespace raytrain::detail {

/// Compares what the ranks are about to do, in lines. A group operation.
///
/// Errors: `rank_mismatch` on all ranks, with the first line that rank 0 has and another rank has not.
/// Cost:   an all_gather of 8 bytes, unless they differ.
void check_same_on_ranks(Collective& collective, std::vector<std::string> lines, std::string attempted,
                         std::string remedy);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/same_on_ranks-inl.hpp>
#endif
