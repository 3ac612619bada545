// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/message/report_line.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto all_metrics(Report const& report, Started const& worker) -> Metrics {
  Metrics all;
  all.reserve(report.metrics.size() + automatic_metric_names().size());
  for (auto const& [name, value] : report.metrics) all.set(name, value);
  all.set("training_iteration", report.training_iteration);
  all.set("time_this_iter_s", report.time_this_iter_s);
  all.set("time_total_s", report.time_total_s);
  all.set("timestamp", detail::seconds(report.timestamp_ns));
  all.set("hostname", worker.hostname);
  all.set("pid", worker.pid);
  all.set("node_ip", worker.node_ip);
  all.set("world_rank", report.rank.value);
  return all;
}

}  // namespace raytrain
