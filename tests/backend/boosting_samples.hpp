// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include <raytrain/backend/boosting/boosting_context.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/callback.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"

namespace raytrain::testing {

/// Two features that matter together, one that matters a little, and one that does not.
[[nodiscard]] inline auto sample(std::size_t rows, unsigned seed) -> Dataset {
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  std::vector<float> features(rows * 3);
  std::vector<std::int32_t> noise(rows);
  std::vector<std::uint8_t> target(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < 3; ++i) features[row * 3 + i] = normal(random);
    noise[row] = static_cast<std::int32_t>(random() % 100);
    target[row] = features[row * 3] * features[row * 3 + 1] + 0.3F * features[row * 3 + 2] > 0 ? 1 : 0;
  }
  return Dataset::from_columns({{"x", features, {3}}, {"noise", noise}, {"target", target}});
}

/// Rows of 100 queries, 6 each, whose target one feature tells. `apart`: two rows have changed their places.
[[nodiscard]] inline auto queries(bool apart) -> Dataset {
  std::vector<float> x;
  std::vector<std::int64_t> query;
  std::vector<float> target;
  for (int i = 0; i < 600; ++i) {
    query.push_back(i / 6);
    target.push_back(static_cast<float>(i % 3));
    x.push_back(static_cast<float>(i % 3) + static_cast<float>(i % 7) / 10);
  }
  if (apart) std::swap(query[0], query[10]);
  return Dataset::from_columns({{"x", x}, {"query", query}, {"target", target}});
}

/// Seven queries of 1 to 13 rows, whose target is the query's number.
[[nodiscard]] inline auto numbered_queries() -> Dataset {
  std::vector<float> x;
  std::vector<std::int64_t> query;
  std::vector<float> target;
  for (int number = 0; number < 7; ++number) {
    for (int row = 0; row < 2 * number + 1; ++row) {
      x.push_back(static_cast<float>(row));
      query.push_back(number);
      target.push_back(static_cast<float>(number));
    }
  }
  return Dataset::from_columns({{"x", x}, {"query", query}, {"target", target}});
}

/// A small training with one core for each worker.
template <class Backend>
[[nodiscard]] auto boosting_config(TemporaryFolder const& folder, int workers,
                                   BoostingMode mode = BoostingMode::automatic) -> TrainerConfig<Backend> {
  return {.scaling = {.num_workers = workers, .resources_per_worker = {.cpus = 1}},
          .run = {.name = "r", .storage_path = folder.path()},
          .datasets = {{"train", sample(3000, 1)}, {"valid", sample(1000, 2)}},
          .backend = {.mode = mode}};
}

/// Asks the run to stop, once, when the first worker has reported this round.
class StopInRound : public Callback {
 public:
  explicit StopInRound(double round) : round_{round} {}
  void on_start(RunInfo const& run) override { stop_ = run.request_stop; }
  void on_report(Report const& report, Metrics const&) override {
    if (report.rank == Rank{0} && report.metrics.number("round") == round_) stop_();
  }

 private:
  double round_;
  std::function<void()> stop_;
};

}  // namespace raytrain::testing
