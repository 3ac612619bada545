// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace raytrain::detail {

/// From now on tensor operations of the calling thread use one thread, as far as they use OpenMP.
void use_one_openmp_thread();

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/one_openmp_thread-inl.hpp>
#endif
