// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>
#include <malloc.h>
#include <torch/torch.h>

#include <limits>
#include <utility>

#include <raytrain/backend/backend.hpp>
#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/cpu_advice.hpp>
#include <raytrain/backend/torch/torch_context.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void keep_freed_memory() noexcept {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD,
          64 << 20);  // a thread's heap of 64 MiB is unmapped, once it is empty, unless this asks for another
#endif
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE void TorchBackend::on_start(ScalingConfig const&) {
  threads_before_ = at::get_num_threads();
  if (config_.keep_freed_memory) detail::keep_freed_memory();
}

RAYTRAIN_TORCH_INLINE auto TorchBackend::make_context(WorkerSetup setup) const -> TorchContext {
  auto& link = setup.link;
  if (link.placement().world_rank == Rank{0}) {
    for (auto const& advice :
         {blas_advice(read_blas_facts()), thread_advice(link.placement().local_world_size, link.placement().cpus,
                                                        static_cast<unsigned>(link.placement().host_cpus))}) {
      if (advice) link.send(Warning{Rank{0}, *advice});
    }
  }
  return TorchContext{std::move(setup)};
}

}  // namespace raytrain
