// SPDX-License-Identifier: Apache-2.0
// Shuffled epochs from memory by LibTorch's DataLoader, with the number of workers that is best:
//   data_loader FEATURES ROWS EPOCHS
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <torch/torch.h>

#include "numbered_rows.hpp"
#include "turns.hpp"

namespace {

class Rows : public torch::data::Dataset<Rows> {
 public:
  Rows(torch::Tensor features, torch::Tensor labels) : features_{std::move(features)}, labels_{std::move(labels)} {}
  auto get(std::size_t index) -> torch::data::Example<> override {
    auto const row = static_cast<std::int64_t>(index);
    return {features_[row], labels_[row]};
  }
  [[nodiscard]] auto size() const -> torch::optional<std::size_t> override { return labels_.size(0); }

 private:
  torch::Tensor features_;
  torch::Tensor labels_;
};

template <class T>
auto values_of(torch::Tensor const& tensor) -> std::span<T> {
  return {tensor.data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 4) throw std::invalid_argument{"arguments: FEATURES ROWS EPOCHS"};
  auto const width = std::stol(argv[1]);
  auto const rows = std::stol(argv[2]);
  auto const features = torch::zeros({rows, width});
  auto const labels = torch::zeros({rows}, torch::kLong);
  number_rows(values_of<float>(features), static_cast<std::size_t>(width));
  number_rows(values_of<std::int64_t>(labels), 1);
  double best = 0;
  std::size_t best_workers = 0;
  for (auto const workers : {0U, 1U, 2U}) {
    auto loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
        Rows{features, labels}.map(torch::data::transforms::Stack<>{}),
        torch::data::DataLoaderOptions{}.batch_size(batch_size).workers(workers));
    std::vector<double> times;
    for (int epoch = 0; epoch < std::stoi(argv[3]); ++epoch) {
      RowCheck check;
      times.push_back(time_ms(wall_ms, [&] {
        for (auto const& batch : *loader)
          check.add(values_of<float>(batch.data), values_of<std::int64_t>(batch.target));
      }));
      check.check(static_cast<std::size_t>(rows));
    }
    auto const rows_per_s = 1e3 * static_cast<double>(rows) / median(times);
    if (rows_per_s > best) best_workers = workers;
    best = std::max(best, rows_per_s);
  }
  fmt::print("{{\"rows_per_s\": {}, \"workers\": {}, \"version\": \"{}\"}}\n", best, best_workers, TORCH_VERSION);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "data_loader: %s\n", error.what());
  return 1;
}
