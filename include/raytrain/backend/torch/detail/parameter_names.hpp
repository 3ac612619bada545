// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/checkpoint/safetensors.hpp>

/// A file counts an optimizer's parameters, and its metadata have the name of each as well, where that is known:
/// "parameters" is ["model.fc.weight", "model.fc.bias"], as JSON. A tensor that the model, or the optimizer, has in
/// several places has the first of its names in all of them.
namespace raytrain::detail {

/// In the order of an optimizer's groups; empty where they are not known.
using ParameterNames = std::vector<std::string>;

/// As the models call the optimizer's parameters, by the models' names: "model.fc.weight"; by the first model that has
/// all of them, if there is one. Empty unless each of them is a model's.
[[nodiscard]] auto parameter_names(torch::optim::Optimizer const& optimizer,
                                   std::map<std::string, torch::nn::Module const*> const& models) -> ParameterNames;

/// Lets the metadata of a file tell the names, if there are any.
void add_parameter_names(TensorMetadata& metadata, ParameterNames const& names);

/// Counts a file's parameters as the optimizer does, whose parameters have these names; by their names, which it takes
/// out of the metadata. Changes no numbers where names are known of one of both alone. Whether it has changed some.
///
/// Errors: `backend` for other names, which are listed, and for a parameter that is in another group;
///         `corrupt_checkpoint` for names that are none. `attempted` begins the message.
[[nodiscard]] auto count_by_names(TensorIndex& index, torch::optim::Optimizer const& optimizer,
                                  ParameterNames const& names, std::string_view attempted) -> bool;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/parameter_names-inl.hpp>
#endif
