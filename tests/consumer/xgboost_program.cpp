// SPDX-License-Identifier: Apache-2.0
// A user's program with XGBoost: two threads find each other and add what they have.
#include <array>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include <raytrain/backend/xgboost/xgboost_communicator.hpp>
#include <raytrain/backend/xgboost/xgboost_tracker.hpp>

auto main() -> int {
  raytrain::XGBoostTracker const tracker{{.world = raytrain::WorldSize{2}}};
  std::array<int, 2> sizes{};
  std::vector<std::thread> workers;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    workers.emplace_back([&, rank] {
      raytrain::XGBoostCommunicator communicator{tracker.worker_arguments(), raytrain::Rank{rank}};
      sizes[rank] = XGCommunicatorGetWorldSize();
      communicator.finalize();
    });
  }
  for (auto& worker : workers) worker.join();
  std::printf("world size %d on one and %d on the other\n", sizes[0], sizes[1]);
  return sizes[0] == 2 && sizes[1] == 2 ? 0 : 1;
}
