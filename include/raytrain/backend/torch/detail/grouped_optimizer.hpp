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
  explicit GroupedOptimizer(std::vector<torch::optim::OptimizerParamGroup> const& groups, Options const& defaults = {})
      : Optimizer{std::vector<torch::optim::OptimizerParamGroup>{}, std::make_unique<Options>(defaults)} {
    defaults.validate();
    for (auto const& group : groups) add_param_group(group);
  }
  explicit GroupedOptimizer(std::vector<at::Tensor> parameters, Options const& defaults = {})
      : GroupedOptimizer{std::vector{torch::optim::OptimizerParamGroup{std::move(parameters)}}, defaults} {}

  /// One without options of its own has the defaults.
  void add_param_group(torch::optim::OptimizerParamGroup const& group) {
    if (group.has_options()) static_cast<Options const&>(group.options()).validate();
    Optimizer::add_param_group(group);
    // LibTorch 2.15 gives the defaults to a group whose options are of a type that it does not know.
    if (group.has_options()) param_groups().back().set_options(group.options().clone());
  }

  void save(torch::serialize::OutputArchive& archive) const override {
    torch::optim::serialize<State, Options>(archive, *this);
  }
  void load(torch::serialize::InputArchive& archive) override {
    torch::optim::serialize<State, Options>(archive, *this);
  }
};

}  // namespace raytrain::detail
