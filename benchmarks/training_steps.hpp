// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <vector>

/// What is measured of the steps of a training.
struct StepPlan {
  int steps = 0;             ///< That are measured.
  int warm_up = 0;           ///< Steps before them, for caches and allocators.
  std::int64_t samples = 0;  ///< Of a step of all workers.
  int last = 0;              ///< The steps whose losses count.
  double started_s = 0;      ///< When the driver started this program, on the monotonic clock.
};

struct StepFigures {
  double first_step_s = 0;  ///< From the start of the program to the end of its first step.
  double samples_per_s = 0;
  double loss = 0;  ///< Mean of the last steps.
};

/// Runs `step`, which returns the loss of its batch, through warm-up and measurement.
template <class Step>
auto measure_steps(StepPlan const& plan, Step const& step) -> StepFigures {
  auto const now = [] {
    return std::chrono::duration<double>{std::chrono::steady_clock::now().time_since_epoch()}.count();
  };
  StepFigures figures;
  step();
  figures.first_step_s = now() - plan.started_s;
  for (int i = 1; i < plan.warm_up; ++i) step();
  auto const begin = now();
  for (int i = 0; i < plan.steps; ++i) {
    auto const loss = step();
    if (i >= plan.steps - plan.last) figures.loss += loss / plan.last;
  }
  figures.samples_per_s = static_cast<double>(plan.steps * plan.samples) / (now() - begin);
  return figures;
}

/// Errors: when this rank's parameters are not those of rank 0, which `broadcast` gives to all.
template <class Broadcast>
void check_equal(std::vector<torch::Tensor> const& parameters, Broadcast const& broadcast) {
  std::vector<double> mine;
  for (auto const& parameter : parameters) mine.push_back(parameter.detach().to(torch::kDouble).norm().item<double>());
  auto of_rank_0 = mine;
  broadcast(of_rank_0);
  if (of_rank_0 != mine) throw std::runtime_error{"the workers' networks differ"};
}
