// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/xgboost.hpp>

#include <cstddef>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/usable_cores.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"

namespace {

using namespace raytrain;

TEST_CASE("the worker that boosts with the threads of all has the cores of all, though each is bound to its own") {
  raytrain::testing::TemporaryFolder const folder;
  auto const of_process = usable_cores();
  std::vector<std::vector<int>> before(2);
  std::vector<std::vector<int>> after(2);
  Trainer<XGBoostBackend> trainer{[&](XGBoostContext& ctx) {
                                    auto const rank = ctx.world_rank().value;
                                    before[rank] = usable_cores();
                                    CHECK(ctx.choose_one_booster());
                                    after[rank] = usable_cores();
                                  },
                                  {.scaling = {.num_workers = 2, .resources_per_worker = {.cpus = 1}, .pin_cpus = true},
                                   .run = {.name = "r", .storage_path = folder.path()}}};
  trainer.fit();
  CHECK(before[0] == std::vector<int>{of_process[0]});
  CHECK(before[1] == std::vector<int>{of_process[1 % of_process.size()]});
  CHECK(std::set<int>(after[0].begin(), after[0].end()) == std::set<int>{before[0][0], before[1][0]});
  CHECK(after[1] == before[1]);
}

}  // namespace
