// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <utility>

#include <raytrain/backend/torch/detail/worker_step.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/wrapped_collective.hpp>

namespace raytrain::detail {

/// What a worker's layers need that compute with the batches of all workers as with one. Each exchange names the layer
/// and its forward, so that ranks of which one leaves a layer out get an error.
///
/// Threads: the worker's, which on the CPU also runs backwards.
/// Errors:  of `Collective`.
/// Cost:    on a GPU the program waits for it in each operation.
class JoinedBatch {
 public:
  /// Of one layer: its model's number and its own, both from 1, and how often it ran forward, with this time.
  struct Pass {
    std::uint16_t model = 0;
    std::uint16_t layer = 0;
    std::uint32_t forward = 0;
  };

  /// Mean and variance of each channel over the joined batch, and over how many values.
  struct Moments {
    at::Tensor mean;
    at::Tensor variance;  ///< Biased.
    double count = 0;
  };

  /// `collective`: outlives it.
  JoinedBatch(Collective& collective, std::shared_ptr<WorkerStep const> worker_step)
      : collective_{collective}, worker_step_{std::move(worker_step)} {}

  /// Of this worker's `x`, N x C or N x C x ..., and those of the others, whose channels are as many. A group
  /// operation.
  [[nodiscard]] auto moments_of(at::Tensor const& x, Pass pass) -> Moments;

  /// The sum of all workers' values, of double and on any device, in their place. A group operation.
  void sum(at::Tensor const& values, Pass pass);

 private:
  void set_tag(Pass pass);

  TaggedCollective collective_;
  std::shared_ptr<WorkerStep const> worker_step_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/joined_batch-inl.hpp>
#endif
