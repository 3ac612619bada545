// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

namespace raytrain::detail {

/// What optimizers of LibTorch's kind have beside their step: groups of parameters with `Options`, a `State` for each
/// parameter, and both in an archive.
///
/// Errors: as `Options::validate`, of the defaults and of each group's.
template <class Options, class State>
class GroupedOptimizer : public torch::optim::Optimizer {
 public:
  explicit GroupedOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups, Options const& defaults = {})
      : Optimizer{std::move(groups), std::make_unique<Options>(defaults)} {
    defaults.validate();
    for (auto const& group : param_groups()) static_cast<Options const&>(group.options()).validate();
  }
  explicit GroupedOptimizer(std::vector<at::Tensor> parameters, Options const& defaults = {})
      : GroupedOptimizer{std::vector{torch::optim::OptimizerParamGroup{std::move(parameters)}}, defaults} {}

  void save(torch::serialize::OutputArchive& archive) const override {
    torch::optim::serialize<State, Options>(archive, *this);
  }
  void load(torch::serialize::InputArchive& archive) override {
    torch::optim::serialize<State, Options>(archive, *this);
  }
};

}  // namespace raytrain::detail
