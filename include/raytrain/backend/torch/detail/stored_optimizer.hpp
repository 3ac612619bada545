// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/bytes.hpp>

/// An optimizer in a file of safetensors' format. Parameters are counted through all groups: "3.exp_avg" is a tensor of
/// the fourth one. What is no tensor is JSON in the metadata: "3.step" is "17", "group.0.lr" is "0.001", and
/// "group.0.params" how many parameters that group has. A list of tensors such as "0.old_dirs" is {"tensors": 2} there,
/// and "0.old_dirs.0" and "0.old_dirs.1", of which those are missing that are undefined.
namespace raytrain::detail {

struct OptimizerState {
  std::vector<NamedTensor> tensors;
  TensorMetadata values;
};

/// What `save` of an optimizer stores; none where it stores something else than LibTorch's own do, or numbers that JSON
/// does not have.
///
/// Errors: `c10::Error`.
[[nodiscard]] auto optimizer_state(torch::optim::Optimizer const& optimizer) -> std::optional<OptimizerState>;

/// Of which parameter a name tells, such as "3.step"; none for one of a group, or of all.
[[nodiscard]] auto parameter_number(std::string_view name) -> std::optional<std::size_t>;

/// The state that a file of that index holds, its tensors where they lie in the file: they are only to be read, and as
/// long as that is there.
///
/// Errors: as `optimizer_archive`.
[[nodiscard]] auto stored_state(BytesView file, TensorIndex index, std::string_view attempted) -> OptimizerState;

/// The archive for `load` of an optimizer of parameters on that device, whose state is in a file of that index.
///
/// Errors: `corrupt_checkpoint` for a file that holds no such state. `attempted` begins the message.
/// Cost:   each tensor is copied once.
[[nodiscard]] auto optimizer_archive(BytesView file, TensorIndex index, at::Device device, std::string_view attempted)
    -> torch::serialize::InputArchive;

/// Where its parameters are; the CPU if it has none.
[[nodiscard]] auto device_of(torch::optim::Optimizer const& optimizer) -> at::Device;

/// One learning rate for each parameter group; empty where the optimizer's options have none.
[[nodiscard]] auto learning_rates(torch::optim::Optimizer& optimizer) -> std::vector<double>;

/// Sets the learning rates that are stored with an optimizer: LibTorch stores them, but does not load them.
void load_learning_rates(torch::serialize::InputArchive& stored, torch::optim::Optimizer& optimizer);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/stored_optimizer-inl.hpp>
#endif
