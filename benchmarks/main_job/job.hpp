// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "../../examples/fashion_mnist/networks.hpp"
#include "../peak_memory.hpp"
#include "../training_steps.hpp"

/// What raytrain's program and its twins have in common: the command line, the loss, what is measured and checked.
namespace job {

inline constexpr int workers = 2;
inline constexpr std::int64_t worker_batch = 64;
inline constexpr std::int64_t global_batch = worker_batch * workers;
inline constexpr int accumulated_batches = 4;  ///< Where gradients are accumulated.
inline constexpr double learning_rate = 1e-3;
inline constexpr std::uint64_t seed = 1;

/// Steps that are not measured, for caches and allocators.
inline constexpr int warm_up_steps = 20;

struct Options {
  std::string model;     ///< mlp or conv.
  int steps = 0;         ///< That are measured.
  double started_s = 0;  ///< When the driver started this program, on the monotonic clock.
  std::string data = "/usr/share/datasets/fashion-mnist";
};

inline auto parse(int argc, char** argv) -> Options {
  if (argc < 4) throw std::invalid_argument{"usage: PROGRAM mlp|conv STEPS STARTED_AT"};
  return {argv[1], std::atoi(argv[2]), std::atof(argv[3])};
}

/// `images`: {n, 1, 28, 28} bytes.
inline auto loss_of(Network& network, torch::Tensor const& images, torch::Tensor const& labels) -> torch::Tensor {
  auto const scaled = images.to(torch::kFloat).sub_(72.94).div_(90.02);
  return torch::nll_loss(network.forward(scaled), labels.to(torch::kLong));
}

using Figures = StepFigures;

/// Runs `step`, which returns the loss of its batch, through warm-up and measurement.
template <class Step>
auto measure(Options const& options, Step const& step) -> Figures {
  return measure_steps({.steps = options.steps,
                        .warm_up = warm_up_steps,
                        .samples = global_batch,
                        .last = 50,
                        .started_s = options.started_s},
                       step);
}

/// Prints what the driver reads. Errors: when the network has not learned what it does within some hundred steps.
inline void print(Options const& options, Figures const& figures) {
  auto const bound = options.model == "mlp" ? 0.75 : 1.4;
  if (!(figures.loss < bound)) {
    throw std::runtime_error{"the loss is " + std::to_string(figures.loss) + ", not below " + std::to_string(bound)};
  }
  std::printf("{\"samples_per_s\": %.1f, \"first_step_s\": %.4f, \"peak_mb\": %.2f, \"loss\": %.4f}\n",
              figures.samples_per_s, figures.first_step_s, peak_mib(), figures.loss);
}

}  // namespace job
