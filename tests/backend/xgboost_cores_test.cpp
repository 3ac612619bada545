// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/xgboost.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/usable_cores.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "boosting_samples.hpp"

namespace {

using namespace raytrain;

/// A loss that notes on which cores the worker that calls it may run.
auto noting(std::vector<std::vector<int>>& cores) -> XGBoostParams {
  return {.label = "target",
          .num_boost_round = 1,
          .custom_objective = [&cores](auto const& margins, auto const& labels, auto gradients, auto hessians) {
            cores.push_back(usable_cores());
            for (std::size_t i = 0; i < margins.size(); ++i) {
              gradients[i] = margins[i] - labels[i];
              hessians[i] = 1;
            }
          }};
}

TEST_CASE("the worker that boosts with the threads of all has the cores of all, where workers are bound to cores") {
  raytrain::testing::TemporaryFolder const folder;
  auto const of_process = usable_cores();
  for (int const workers : {1, 2}) {
    std::vector<std::vector<int>> cores;
    Trainer<XGBoostBackend> trainer{
        noting(cores),
        {.scaling = {.num_workers = workers, .resources_per_worker = {.cpus = 1}, .pin_cpus = true},
         .run = {.name = "r" + std::to_string(workers), .storage_path = folder.path()},
         .datasets = {{"train", testing::sample(100, 1)}}}};
    trainer.fit();
    REQUIRE(cores.size() == 1);
    auto const count = std::min(of_process.size(), static_cast<std::size_t>(workers));
    CHECK(cores[0] == std::vector<int>(of_process.begin(), of_process.begin() + static_cast<std::ptrdiff_t>(count)));
  }
  CHECK(usable_cores() == of_process);
}

}  // namespace
