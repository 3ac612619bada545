// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <raytrain/backend/boosting/detail/block_rows.hpp>
#include <raytrain/backend/lightgbm/detail/lightgbm_library.hpp>

namespace raytrain::detail {

struct FreeLightGBMDataset {
  void operator()(void* handle) const noexcept { lightgbm::LGBM_DatasetFree(handle); }
};
using OwnedLightGBMDataset = std::unique_ptr<void, FreeLightGBMDataset>;

/// Rows of blocks as LightGBM gets them: in doubles, which are exact for floats as well.
using LightGBMBlocks = BlockRows<double>;

/// The rows that LightGBM looks at to find bins, of rows that lie in memory, in their order.
[[nodiscard]] inline auto sampled_rows(std::int32_t rows, std::string const& parameters) -> std::vector<std::int32_t> {
  int most = 0;
  lightgbm_call(lightgbm::LGBM_GetSampleCount(rows, parameters.c_str(), &most), "LGBM_GetSampleCount");
  std::vector<std::int32_t> sampled(static_cast<std::size_t>(most));
  std::int32_t count = 0;
  lightgbm_call(lightgbm::LGBM_SampleIndices(rows, parameters.c_str(), sampled.data(), &count), "LGBM_SampleIndices");
  sampled.resize(static_cast<std::size_t>(count));
  return sampled;
}

/// A dataset with the bins that LightGBM finds for so many rows in memory, and without their values yet. Goes through
/// the blocks. Where workers train together they find the bins together.
[[nodiscard]] inline auto new_dataset_with_bins(LightGBMBlocks& blocks, std::int32_t rows,
                                                std::string const& parameters) -> OwnedLightGBMDataset {
  constexpr auto largest_zero = static_cast<double>(1e-35F);  // LightGBM's
  auto const width = blocks.names().size();
  auto const sampled = sampled_rows(rows, parameters);
  std::vector<std::vector<double>> values(width);  // of each feature, but for zeros
  std::vector<std::vector<int>> places(width);     // of these among the sampled rows
  std::size_t taken = 0;
  blocks.rewind();
  while (blocks.next()) {
    auto const end = blocks.first_row() + blocks.rows();
    for (; taken < sampled.size() && static_cast<std::size_t>(sampled[taken]) < end; ++taken) {
      auto const row = static_cast<std::size_t>(sampled[taken]) - blocks.first_row();
      for (std::size_t i = 0; i < width; ++i) {
        auto const value = blocks.values()[row * width + i];
        if (std::abs(value) <= largest_zero) continue;
        values[i].push_back(value);
        places[i].push_back(static_cast<int>(taken));
      }
    }
  }
  std::vector<double*> value_pointers;
  std::vector<int*> place_pointers;
  std::vector<int> counts;
  for (std::size_t i = 0; i < width; ++i) {
    value_pointers.push_back(values[i].data());
    place_pointers.push_back(places[i].data());
    counts.push_back(static_cast<int>(values[i].size()));
  }
  void* made = nullptr;
  lightgbm_call(lightgbm::LGBM_DatasetCreateFromSampledColumn(
                    value_pointers.data(), place_pointers.data(), static_cast<std::int32_t>(width), counts.data(),
                    static_cast<std::int32_t>(sampled.size()), rows, rows, parameters.c_str(), &made),
                "LGBM_DatasetCreateFromSampledColumn");
  return OwnedLightGBMDataset{made};
}

/// A dataset with the bins of another one, and without values yet.
[[nodiscard]] inline auto new_dataset_with_bins_of(void* reference, std::int32_t rows) -> OwnedLightGBMDataset {
  void* made = nullptr;
  lightgbm_call(lightgbm::LGBM_DatasetCreateByReference(reference, rows, &made), "LGBM_DatasetCreateByReference");
  return OwnedLightGBMDataset{made};
}

/// Puts the values of all blocks into a dataset.
inline void push_blocks(LightGBMBlocks& blocks, void* dataset, std::map<std::string, std::string> const& params) {
  // LightGBM keeps sparse values apart for each thread until all are there: for as many as it uses now, times the
  // callers that it is told of here. A prediction in the blocks' reader may let it use all cores meanwhile, since that
  // number is the process's.
  auto const found = params.find("num_threads");
  auto const threads = found == params.end() ? 1 : std::max(1, std::atoi(found->second.c_str()));
  auto const cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  auto const callers = (cores + threads - 1) / threads;
  lightgbm_call(lightgbm::LGBM_DatasetInitStreaming(dataset, 0, 0, 0, 1, callers, 0), "LGBM_DatasetInitStreaming");
  auto const width = static_cast<std::int32_t>(blocks.names().size());
  blocks.rewind();
  while (blocks.next()) {
    lightgbm_call(lightgbm::LGBM_DatasetPushRows(dataset, blocks.values().data(), lightgbm::float64,
                                                 static_cast<std::int32_t>(blocks.rows()), width,
                                                 static_cast<std::int32_t>(blocks.first_row())),
                  "LGBM_DatasetPushRows");
  }
  lightgbm_call(lightgbm::LGBM_DatasetMarkFinished(dataset), "LGBM_DatasetMarkFinished");
}

}  // namespace raytrain::detail
