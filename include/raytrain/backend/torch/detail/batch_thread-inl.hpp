// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <torch/torch.h>

#include <cstdint>

#include <raytrain/backend/torch/detail/batch_thread.hpp>
#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/own_default_generator.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE BatchThread::BatchThread() {
  // `at::set_num_threads` would also set the number of threads that are started later, and of MKL in all.
  (void)at::get_num_threads();  // once on a thread this sets what follows
  auto* const set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr) set(1);
}

RAYTRAIN_TORCH_INLINE BatchScope::BatchScope(std::uint64_t seed)
    : generator_{OwnDefaultGenerator::current()}, before_{default_generator_state()} {
  seed_default_generator(seed);
}

RAYTRAIN_TORCH_INLINE BatchScope::~BatchScope() { set_default_generator_state(before_); }

}  // namespace raytrain::detail
