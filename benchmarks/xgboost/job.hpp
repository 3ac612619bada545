// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "../peak_memory.hpp"
#include "exchange_time.hpp"

/// What raytrain's program and its twin have in common: the rows, what is trained, what is measured and checked.
namespace job {

inline constexpr char const* objective = "binary:logistic";
inline constexpr char const* metric = "logloss";
inline constexpr int max_depth = 6;
inline constexpr int max_bin = 256;
inline constexpr std::uint64_t seed = 1;

inline constexpr std::size_t measured = 21;
inline constexpr std::size_t derived = 7;
inline constexpr std::size_t width = measured + derived;

struct Rows {
  std::vector<float> features;  ///< {rows, width}
  std::vector<float> labels;    ///< 0 or 1.
};

/// 21 columns of a standard normal distribution, every third of them its absolute value, and 7 lengths of three of them
/// each, as the HIGGS data has momenta and masses. The label follows from the lengths, a product, and noise, so that
/// half of the rows are 1 and no model tells all of them.
inline auto generate(std::size_t count) -> Rows {
  Rows rows{std::vector<float>(count * width), std::vector<float>(count)};
  std::mt19937_64 random{seed};
  std::normal_distribution<float> normal;
  for (std::size_t row = 0; row < count; ++row) {
    auto* const x = rows.features.data() + row * width;
    for (std::size_t i = 0; i < measured; ++i) x[i] = i % 3 == 2 ? std::abs(normal(random)) : normal(random);
    auto score = x[0] * x[4] + 0.5F * normal(random);
    for (std::size_t i = 0; i < derived; ++i) {
      x[measured + i] = std::hypot(x[3 * i], x[3 * i + 1], x[3 * i + 2]);
      score += (i % 2 == 0 ? 1.0F : -1.0F) * (x[measured + i] - 1.6F) / static_cast<float>(i + 1);
    }
    rows.labels[row] = score > 0 ? 1.0F : 0.0F;
  }
  return rows;
}

inline auto now_s() -> double {
  return std::chrono::duration<double>{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

struct Figures {
  int rounds = 0;
  double held_s = 0;         ///< From rows in memory to how they are held, as in files that `materialize` writes.
  double whole_s = 0;        ///< From rows that are held so to a model in a file.
  double after_first_s = 0;  ///< From the end of the first round, which prepares the others, to the end of the last.
  double exchange_s = 0;     ///< Of that, XGBoost's calls that send, receive or wait for another process.
  double loss = 0;           ///< On the rows trained on, after the last round.
};

/// Prints what the driver reads. Errors: when the trees have not learned what they do within some rounds.
inline void print(Figures const& figures) {
  constexpr double bound = 0.6;
  if (!(figures.loss < bound)) {
    throw std::runtime_error{"the loss is " + std::to_string(figures.loss) + ", not below " + std::to_string(bound)};
  }
  auto const round_s = figures.after_first_s / (figures.rounds - 1);
  std::printf(
      "{\"fed_rounds_per_s\": %.4f, \"whole_rounds_per_s\": %.4f, \"rounds_per_s\": %.4f, \"exchange_share\": %.5f, "
      "\"peak_mib\": %.2f, "
      "\"loss\": %.9f}\n",
      figures.rounds / (figures.held_s + figures.whole_s), figures.rounds / figures.whole_s, 1 / round_s,
      figures.exchange_s / figures.after_first_s, peak_mib(), figures.loss);
}

}  // namespace job
