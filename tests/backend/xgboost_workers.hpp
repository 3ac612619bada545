// SPDX-License-Identifier: Apache-2.0
// Threads that are XGBoost's workers, and what they do together.
#pragma once

#include <xgboost/c_api.h>
#include <xgboost/version_config.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/xgboost/detail/xgboost_library.hpp>
#include <raytrain/backend/xgboost/xgboost_communicator.hpp>
#include <raytrain/backend/xgboost/xgboost_tracker.hpp>

namespace raytrain::testing {

/// Whether XGBoost brings its own tracker, which lets others do what ours does not.
inline constexpr bool library_tracks = XGBOOST_VER_MAJOR > 2 || (XGBOOST_VER_MAJOR == 2 && XGBOOST_VER_MINOR >= 1);

[[nodiscard]] inline auto open_descriptors() -> std::size_t {
  auto const count = std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
  return static_cast<std::size_t>(count) - 1;  // the listing's own
}

/// Whether there are as few again, or fewer: XGBoost's own threads, from 2.1 on, close theirs a moment later, also
/// those that were still open when `before` was counted.
[[nodiscard]] inline auto descriptors_return_to(std::size_t before) -> bool {
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (open_descriptors() > before) {
    if (!library_tracks || std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Calls `work` once for each rank, each on a thread of its own; what they threw, an empty text for those that did not.
template <class Work>
auto on_threads(std::uint32_t world, Work const& work) -> std::vector<std::string> {
  std::vector<std::string> errors(world);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      // XGBoost prints who has come.
      XGBRegisterLogCallback([](char const*) {});
      try {
        work(Rank{rank});
      } catch (std::exception const& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

/// The sum over all ranks.
[[nodiscard]] inline auto summed(double value) -> double {
  constexpr int float64 = library_tracks ? 2 : 7;
  constexpr int sum = 2;
  std::array<double, 3> values{value, 10 * value, 100 * value};
  detail::xgboost_call(XGCommunicatorAllreduce(values.data(), values.size(), float64, sum), "XGCommunicatorAllreduce");
  CHECK(values[1] == 10 * values[0]);
  CHECK(values[2] == 100 * values[0]);
  return values[0];
}

/// Handles of XGBoost, freed as they were made.
struct Trained {
  DMatrixHandle matrix = nullptr;
  BoosterHandle booster = nullptr;
  Trained() = default;
  Trained(Trained const&) = delete;
  auto operator=(Trained const&) -> Trained& = delete;
  ~Trained() {
    if (booster != nullptr) XGBoosterFree(booster);
    if (matrix != nullptr) XGDMatrixFree(matrix);
  }
};

/// The bytes of a model that was trained for some rounds on a part of the rows for each rank.
[[nodiscard]] inline auto train_model(Rank rank, int rounds) -> std::string {
  constexpr std::uint64_t rows = 60;
  constexpr std::uint64_t columns = 3;
  std::vector<float> features;
  std::vector<float> labels;
  for (std::uint64_t row = 0; row < rows; ++row) {
    auto const at = row + rows * rank.value;
    for (std::uint64_t column = 0; column < columns; ++column) {
      features.push_back(static_cast<float>((at * 37 + column * 101) % 89));
    }
    labels.push_back(features[row * columns] > 40 ? 1.0F : 0.0F);
  }
  Trained trained;
  detail::xgboost_call(XGDMatrixCreateFromMat(features.data(), rows, columns, -1.0F, &trained.matrix),
                       "XGDMatrixCreateFromMat");
  detail::xgboost_call(XGDMatrixSetFloatInfo(trained.matrix, "label", labels.data(), rows), "XGDMatrixSetFloatInfo");
  detail::xgboost_call(XGBoosterCreate(&trained.matrix, 1, &trained.booster), "XGBoosterCreate");
  for (auto const& [name, value] : {std::pair{"objective", "binary:logistic"}, std::pair{"tree_method", "hist"},
                                    std::pair{"nthread", "1"}, std::pair{"max_depth", "3"}}) {
    detail::xgboost_call(XGBoosterSetParam(trained.booster, name, value), "XGBoosterSetParam");
  }
  for (int round = 0; round < rounds; ++round) {
    detail::xgboost_call(XGBoosterUpdateOneIter(trained.booster, round, trained.matrix), "XGBoosterUpdateOneIter");
  }
  bst_ulong size = 0;
  char const* bytes = nullptr;
  detail::xgboost_call(XGBoosterSaveModelToBuffer(trained.booster, R"({"format": "json"})", &size, &bytes),
                       "XGBoosterSaveModelToBuffer");
  return {bytes, size};
}

}  // namespace raytrain::testing
