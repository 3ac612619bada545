// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "../../examples/language_model/network.hpp"
#include "../../examples/language_model/text.hpp"
#include "../peak_memory.hpp"
#include "../training_steps.hpp"

/// What raytrain's program and its twins have in common: the command line, the rows of each step, the loss, and what is
/// measured. ddp.py says the same in Python.
namespace job {

inline constexpr int workers = 2;
inline constexpr std::int64_t worker_batch = 8;
inline constexpr std::int64_t context = 128;  ///< Bytes of a row.
inline constexpr double learning_rate = 1e-3;
inline constexpr double largest_norm = 1;
inline constexpr std::uint64_t seed = 1;

struct Options {
  int steps = 0;         ///< That are measured.
  double started_s = 0;  ///< When the driver started this program, on the monotonic clock.
};

inline auto parse(int argc, char** argv) -> Options {
  if (argc < 3) throw std::invalid_argument{"usage: PROGRAM STEPS STARTED_AT"};
  return {std::atoi(argv[1]), std::atof(argv[2])};
}

/// The same rows in each step, whoever divides them.
class Rows {
 public:
  Rows() {
    text_ = read_text(licences_folder);
    all_ = torch::from_blob(text_.data(), {static_cast<std::int64_t>(text_.size())}, torch::kByte)
               .unfold(0, context + 1, context);
  }

  /// Those of one worker in its next step: {count, context + 1} integers.
  auto next(std::int64_t first, std::int64_t count) -> torch::Tensor {
    constexpr std::int64_t prime = 7919;  // so that rows that follow each other in a step do not in the text
    auto const from = step_++ * worker_batch * workers + first;
    return all_.index_select(0, torch::arange(from, from + count).mul(prime).remainder(all_.size(0))).to(torch::kLong);
  }

 private:
  std::string text_;
  torch::Tensor all_;
  std::int64_t step_ = 0;
};

inline auto loss_of(LanguageModel& model, torch::Tensor const& rows) -> torch::Tensor {
  auto const logits = model.forward(rows.slice(1, 0, context));
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1), rows.slice(1, 1).flatten());
}

template <class Step>
auto measure(Options const& options, Step const& step) -> StepFigures {
  return measure_steps({.steps = options.steps,
                        .warm_up = 5,
                        .samples = workers * worker_batch * context,
                        .last = 10,
                        .started_s = options.started_s},
                       step);
}

/// Prints what the driver reads. Errors: when the network has not learned what it does within some steps.
inline void print(StepFigures const& figures) {
  constexpr double bound = 4.9;  // log(256) is 5.5
  if (!(figures.loss < bound)) {
    throw std::runtime_error{"the loss is " + std::to_string(figures.loss) + ", not below " + std::to_string(bound)};
  }
  std::printf("{\"bytes_per_s\": %.1f, \"first_step_s\": %.4f, \"peak_mb\": %.2f, \"loss\": %.6f}\n",
              figures.samples_per_s, figures.first_step_s, peak_mib(), figures.loss);
}

}  // namespace job
