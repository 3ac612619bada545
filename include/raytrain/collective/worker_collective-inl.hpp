// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/collective_model.hpp>
#include <raytrain/collective/detail/operations.hpp>
#include <raytrain/collective/worker_collective.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto WorkerCollective::stop_agreed() const noexcept -> bool {
  return local_ ? local_->stop_agreed() : other_->stop_agreed();
}

RAYTRAIN_INLINE void WorkerCollective::run(detail::Task const& task) {
  if (local_) return run_task(*local_, task);
  other_->run(task);
}

}  // namespace raytrain
