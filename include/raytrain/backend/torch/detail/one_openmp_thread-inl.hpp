// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <torch/torch.h>

#include <raytrain/backend/torch/detail/one_openmp_thread.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void use_one_openmp_thread() {
  // `at::set_num_threads` would also set the number of threads that are started later, and of MKL in all.
  (void)at::get_num_threads();  // once on a thread this sets what follows
  auto* const set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr) set(1);
}

}  // namespace raytrain::detail
