// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>
#include <torch/torch.h>

#include <memory>
#include <utility>

#include <raytrain/backend/backend.hpp>
#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/cpu_advice.hpp>
#include <raytrain/backend/torch/detail/freed_memory.hpp>
#include <raytrain/backend/torch/detail/worker_device.hpp>
#include <raytrain/backend/torch/torch_context.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE void TorchBackend::on_start(ScalingConfig const& scaling) {
  if (scaling.use_gpu) detail::check_devices(scaling);
  scaling_ = scaling;
  threads_before_ = at::get_num_threads();
  if (config_.keep_freed_memory) freed_memory_stays_ = std::make_unique<detail::FreedMemoryStays>();
}

RAYTRAIN_TORCH_INLINE auto TorchBackend::make_context(WorkerSetup setup) const -> TorchContext {
  auto& link = setup.link;
  if (link.placement().world_rank == Rank{0}) {
    for (auto const& advice :
         {blas_advice(read_blas_facts()), thread_advice(link.placement().local_world_size, link.placement().cpus,
                                                        static_cast<unsigned>(link.placement().host_cpus))}) {
      if (advice) link.send(Warning{*advice});
    }
  }
  return TorchContext{std::move(setup), config_, scaling_};
}

}  // namespace raytrain
