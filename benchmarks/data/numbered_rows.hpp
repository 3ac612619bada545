// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

constexpr std::size_t batch_size = 256;

/// The number of each row stands in its first feature, and is its label.
template <class T>
void number_rows(std::span<T> values, std::size_t width) {
  for (std::size_t row = 0; row < values.size() / width; ++row) values[row * width] = static_cast<T>(row);
}

/// Sees whether batches have each row once.
class RowCheck {
 public:
  void add(std::span<float const> features, std::span<std::int64_t const> labels) {
    auto const width = features.size() / labels.size();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      sum_ += static_cast<std::uint64_t>(labels[i]);
      matches_ = matches_ && static_cast<std::int64_t>(features[i * width]) == labels[i];
    }
    count_ += labels.size();
  }

  void check(std::size_t rows) const {
    if (count_ != rows || sum_ != rows * (rows - 1) / 2 || !matches_)
      throw std::runtime_error{"rows are missing or mixed up"};
  }

 private:
  std::size_t count_ = 0;
  std::uint64_t sum_ = 0;
  bool matches_ = true;
};
