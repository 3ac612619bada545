// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace raytrain::detail {

/// Batches of this worker whose gradients are averaged together, as `TorchContext::accumulate` counts them.
///
/// Each batch counts by its samples, so that the gradient is that of the mean over all samples of the window, as with
/// one large batch.
class AccumulationWindow {
 public:
  /// The next batch: of a window of so many `batches`, which it ends earlier where `ends`. `samples`: of the batch; 0
  /// where nobody knows, and then as many as the batch before. True when it is the window's last one.
  auto add(int batches, std::uint64_t samples, bool ends) noexcept -> bool {
    if (!is_open()) {
      ++number_;
      length_ = batches;
      count_ = 0;
      all_samples_ = 0;
    }
    if (samples > 0) samples_ = static_cast<double>(samples);
    all_samples_ += samples_;
    ++count_;
    is_last_ = ends || count_ == length_;
    return is_last_;
  }

  /// From 1; 0 before any.
  [[nodiscard]] auto number() const noexcept -> std::uint64_t { return number_; }
  /// Batches that it is to have.
  [[nodiscard]] auto length() const noexcept -> int { return length_; }
  /// Batches so far, the one at hand included.
  [[nodiscard]] auto count() const noexcept -> int { return count_; }

  /// The batch at hand is not its last one.
  [[nodiscard]] auto is_open() const noexcept -> bool { return !is_last_; }
  /// It is not the batch at hand alone.
  [[nodiscard]] auto has_several() const noexcept -> bool { return is_open() || count_ > 1; }

  /// Of the batch at hand.
  [[nodiscard]] auto samples() const noexcept -> double { return samples_; }
  /// Of all batches so far.
  [[nodiscard]] auto all_samples() const noexcept -> double { return all_samples_; }

 private:
  std::uint64_t number_ = 0;
  int length_ = 1;
  int count_ = 0;
  double samples_ = 1;
  double all_samples_ = 0;
  bool is_last_ = true;
};

}  // namespace raytrain::detail
