// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <raytrain/backend/torch/optimizers.hpp>

namespace raytrain {

namespace detail {
template <class O>
inline constexpr bool is_elementwise = false;
}  // namespace detail

/// Says of an optimizer that it is element-wise, and what its options are: SGD, Adam, AdamW, RMSprop, Adagrad
/// and `Adadelta`.
///
/// An element-wise optimizer changes each element of a parameter by that element, its gradient, the options, and state
/// that has the parameter's shape or is a number that only the count of steps decides. Whoever updates a slice of a
/// parameter then gets that slice of the result. An optimizer of the program's own joins by a specialization, if its
/// `save` and `load` are by `torch::optim::serialize`, as those of LibTorch's are.
template <class O>
struct ElementwiseOptimizer {
  static_assert(detail::is_elementwise<O>,
                "raytrain: prepare_optimizer() takes an element-wise optimizer: SGD, Adam, AdamW, RMSprop, Adagrad "
                "or Adadelta. LAMB, LARS, LBFGS and others look at more elements at once than the slice that a worker "
                "has: make one of these on each worker, from model->parameters(); LBFGS with a closure whose loss is "
                "ctx.average() of all workers'");
  using Options = torch::optim::OptimizerOptions;
};

template <>
struct ElementwiseOptimizer<torch::optim::SGD> {
  using Options = torch::optim::SGDOptions;
};
template <>
struct ElementwiseOptimizer<torch::optim::Adam> {
  using Options = torch::optim::AdamOptions;
};
template <>
struct ElementwiseOptimizer<torch::optim::AdamW> {
  using Options = torch::optim::AdamWOptions;
};
template <>
struct ElementwiseOptimizer<torch::optim::RMSprop> {
  using Options = torch::optim::RMSpropOptions;
};
template <>
struct ElementwiseOptimizer<torch::optim::Adagrad> {
  using Options = torch::optim::AdagradOptions;
};
template <>
struct ElementwiseOptimizer<Adadelta> {
  using Options = AdadeltaOptions;
};

}  // namespace raytrain
