// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <cstddef>
#include <memory>
#include <vector>

#include <raytrain/backend/torch/gradient_arena.hpp>
#include <raytrain/backend/torch/tensor_broadcast.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/collective/worker_collective.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// Averages a model's gradients over all ranks whenever a backward through it ends, and gives every rank the buffers
/// (running statistics and the like) of rank 0.
///
/// Accumulation works as in one process: what is averaged already is the same on every rank, and stays so.
///
/// Threads: the worker's, which on the CPU is also the one that runs the backward.
/// Errors:  `backward()` throws what the collective throws.
class GradientAverager {
 public:
  GradientAverager(torch::nn::Module const& module, WorkerCollective& collective)
      : arena_{module}, collective_{collective}, buffers_{module.buffers()} {
    // Hooks of the tensors, since those of their autograd nodes do not survive loading a state.
    for (std::size_t index = 0; index < arena_.size(); ++index) {
      hooks_.push_back(arena_.parameter(index).register_hook(
          [this, index](at::Tensor const& gradient) { on_gradient(index, gradient); }));
    }
  }

  GradientAverager(GradientAverager const&) = delete;
  auto operator=(GradientAverager const&) -> GradientAverager& = delete;
  ~GradientAverager() {
    for (std::size_t index = 0; index < hooks_.size(); ++index) arena_.parameter(index).remove_hook(hooks_[index]);
  }

 private:
  /// Held by the engine until the backward has ended, or has failed before its end.
  struct Pending {
    bool& flag;
    ~Pending() { flag = false; }
  };

  void on_gradient(std::size_t index, at::Tensor const& gradient) {
    if (!gradient.defined()) return;
    if (!pending_) {
      pending_ = true;
      arena_.begin_backward();
      torch::autograd::Engine::get_default_engine().queue_callback(
          [this, pending = std::make_shared<Pending>(pending_)] { on_backward_end(); });
    }
    arena_.expect(index, gradient);
  }

  void on_backward_end() {
    arena_.reduce([&](auto values) { collective_.all_reduce(values, ReduceOp::average); });
    if (!buffers_.empty()) broadcast_tensors(collective_, buffers_, Rank{0});
  }

  GradientArena arena_;
  WorkerCollective& collective_;
  std::vector<at::Tensor> buffers_;
  std::vector<unsigned> hooks_;
  bool pending_ = false;
};

}  // namespace raytrain::detail
