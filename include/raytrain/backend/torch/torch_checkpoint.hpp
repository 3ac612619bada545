// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <raytrain/backend/torch/detail/parameter_names.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/backend/torch/torch_module.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpointed.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain {

/// What trains a model: an optimizer, or a scheduler of its learning rates, such as StepLR.
///
/// LibTorch's `ReduceLROnPlateauScheduler` is none, since it shows nobody the best metric and how long it has waited.
/// After a resume it begins to wait anew, unless the program keeps the metrics that it was stepped with, steps the new
/// one with them, and calls `restore` afterwards, which sets the learning rates. `ReduceOnPlateau` is saved as it is.
template <class T>
concept TorchStepper = std::derived_from<T, torch::optim::Optimizer> || std::derived_from<T, torch::optim::LRScheduler>;

/// What has a state that is stored and loaded.
template <class T>
concept TorchState = TorchModule<T> || TorchStepper<T>;

/// What is saved beside a model: an optimizer, a scheduler, or what has a file of its own, as an `LrSchedule`,
/// `EarlyStopping` and an `AveragedModel` do.
template <class T>
concept TorchCompanion = TorchStepper<T> || Checkpointed<T>;

namespace detail {

/// What a state is stored of.
using StateOwner = std::variant<torch::nn::Module*, torch::optim::Optimizer*, torch::optim::LRScheduler*>;

/// Errors: `c10::Error` for an empty holder or shared_ptr.
template <TorchState T>
[[nodiscard]] auto state_owner(T const& value) -> StateOwner {
  if constexpr (TorchModule<T>) {
    return &raytrain::module_of(value);
  } else {
    return const_cast<T*>(&value);  // loading fills it; storing only reads
  }
}

template <class T>
inline constexpr bool is_scheduler = std::derived_from<T, torch::optim::LRScheduler>;

/// The file of that name in a checkpoint, where it is an archive of LibTorch's, and where it is tensors that Python's
/// safetensors reads.
[[nodiscard]] inline auto archive_name(std::string const& name) -> std::string { return name + ".pt"; }
[[nodiscard]] inline auto tensors_name(std::string const& name) -> std::string { return name + ".safetensors"; }

/// Adds the module's tensors to a draft; false, and nothing is added, if it stores more than such.
[[nodiscard]] auto add_model(CheckpointDraft& draft, torch::nn::Module const& module, std::string const& name) -> bool;

/// Calls `fill` with the tensors of which `add_model` makes a file, and lets the module know when they are filled.
///
/// Errors: `backend` for a module that stores more than such.
void fill_model(torch::nn::Module& module, std::string_view attempted,
                std::function<void(std::vector<NamedTensor> const&)> const& fill);

/// Fills the module with what `add_model` has stored.
///
/// Errors: as `fill_tensors`.
void load_model(BytesView file, torch::nn::Module& module, std::string_view attempted);

/// The same for an optimizer's state and options. Of a `ShardedOptimizer` all ranks call it, and rank 0 adds it.
[[nodiscard]] auto add_optimizer(CheckpointDraft& draft, torch::optim::Optimizer const& optimizer,
                                 std::string const& name, ParameterNames const& parameters = {}) -> bool;

/// Whether this is the rank that stores it, for one that all ranks store together; none for any other.
[[nodiscard]] auto is_stored_here(torch::optim::Optimizer const& optimizer) -> std::optional<bool>;

/// Errors: `corrupt_checkpoint`; `backend` when it is of another optimizer.
void load_optimizer(BytesView file, torch::optim::Optimizer& optimizer, std::string_view attempted,
                    ParameterNames const& parameters = {});

/// As `state_to_bytes`, with errors of LibTorch's own.
[[nodiscard]] auto owner_to_bytes(StateOwner const& owner) -> Bytes;

/// As `state_from_bytes`.
void owner_from_bytes(BytesView bytes, StateOwner const& owner, std::string_view attempted);

/// Adds the file of that name: tensors or an archive. `parameters`: an optimizer's.
///
/// Errors: `backend`, also for what `find` throws of LibTorch's.
void add_state(CheckpointDraft& draft, std::function<StateOwner()> const& find, std::string const& name,
               ParameterNames const& parameters = {});

/// Errors: as `load`; `backend` also for what `find` throws of LibTorch's.
void load_state(Checkpoint const& checkpoint, std::function<StateOwner()> const& find, std::string const& name,
                ParameterNames const& parameters = {});

}  // namespace detail

/// The state as bytes of LibTorch's own file format, which torch::load and torch.jit.load read.
///
/// Errors: `backend`.
/// Cost: memory for the bytes, once.
template <TorchState T>
[[nodiscard]] auto state_to_bytes(T const& value) -> Bytes {
  return detail::torch_call("storing a state", [&] { return detail::owner_to_bytes(detail::state_owner(value)); });
}

/// Fills `value` with what `state_to_bytes` gave. `attempted` begins the message of an error.
///
/// Gradients stay as they are, and so does what `prepare_model` attached. An optimizer gets its learning rates back.
/// Errors: `backend` for bytes that are not such, for a state of other names, shapes or types, and for different
///         tensors where `value` has one by two names; it is then to be thrown away.
template <TorchState T>
void state_from_bytes(BytesView bytes, T& value, std::string_view attempted = "loading a state") {
  detail::owner_from_bytes(bytes, detail::state_owner(value), attempted);
}

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/torch_checkpoint-inl.hpp>
#endif
