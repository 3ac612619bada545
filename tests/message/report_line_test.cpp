// SPDX-License-Identifier: Apache-2.0
#include <raytrain/message/report_line.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/message/json.hpp>

TEST_CASE("a report's line has the user's metrics first and then every automatic one in its order") {
  raytrain::Report report;
  report.rank = raytrain::Rank{2};
  report.training_iteration = 7;
  report.time_this_iter_s = 0.5;
  report.time_total_s = 3.5;
  report.timestamp_ns = 1'700'000'000'250'000'000;
  report.metrics = {{"loss", 0.25}, {"epoch", std::int64_t{6}}};
  raytrain::Started const worker{raytrain::Rank{2}, "node", 4711, "10.0.0.7"};
  auto const all = raytrain::all_metrics(report, worker);
  CHECK(raytrain::to_json(all) ==
        R"({"loss": 0.25, "epoch": 6, "training_iteration": 7, "time_this_iter_s": 0.5, "time_total_s": 3.5, )"
        R"("timestamp": 1700000000.25, "hostname": "node", "pid": 4711, "node_ip": "10.0.0.7", "world_rank": 2})");

  std::vector<std::string> names;
  for (auto const& entry : all) names.push_back(entry.name);
  auto const automatic = raytrain::automatic_metric_names();
  CHECK(std::ranges::equal(names.begin() + 2, names.end(), automatic.begin(), automatic.end()));
}
