// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include <raytrain/backend/torch/detail/batch_thread.hpp>
#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/one_openmp_thread.hpp>
#include <raytrain/backend/torch/detail/own_default_generator.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE BatchThread::BatchThread() { use_one_openmp_thread(); }

RAYTRAIN_TORCH_INLINE BatchScope::BatchScope(std::uint64_t seed)
    : generator_{OwnDefaultGenerator::current()}, before_{default_generator_state()} {
  seed_default_generator(seed);
}

RAYTRAIN_TORCH_INLINE BatchScope::~BatchScope() { set_default_generator_state(before_); }

}  // namespace raytrain::detail
