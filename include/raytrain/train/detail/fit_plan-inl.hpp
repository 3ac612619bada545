// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <raytrain/core/inline.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/detail/fit_plan.hpp>
#include <raytrain/train/detail/prepared_datasets.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto shared_by_workers(FitPlan const& plan, Begin const& begin, ForWorkers here)
    -> std::shared_ptr<RunShared const> {
  auto const begins_from_other_run = here.checkpoint && !begin.checkpoint;
  return std::make_shared<RunShared const>(
      RunShared{.experiment_name = begin.name,
                .run_path = begin.run_path,
                .seed = plan.run.seed,
                .metadata = begin.metadata,
                .datasets = plan.datasets,
                .data = plan.data,
                .prepared = preparation_by(plan.preprocessor),
                .workers = here.range,
                .virtual_shards = static_cast<std::uint32_t>(plan.scaling.virtual_shards),
                .collective_timeout = plan.run.collective_timeout,
                .checkpoint_config = plan.run.checkpoint,
                .between_failures_s = begin.between_failures_s,
                .checkpoint = std::move(here.checkpoint),
                .begins_from_other_run = begins_from_other_run,
                .first_checkpoint = begin.first_checkpoint,
                .known_report_fields = begin.report_fields,
                .clock = plan.clock,
                .store = here.store,
                .store_thread = here.store_thread,
                .hang_watch = here.hang_watch,
                .copies = std::move(here.copies),
                .has_first_rank = here.has_first_rank});
}

}  // namespace raytrain::detail
