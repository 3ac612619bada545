// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/backend/torch/detail/parameter_names.hpp>
#include <raytrain/backend/torch/detail/stored_optimizer.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/backend/torch/torch_module.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpointed.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// How often a scheduler was stepped, which is all its state: the rates are the optimizer's. LibTorch's schedulers have
/// neither `save` nor `load`.
struct SchedulerSteps : torch::optim::LRScheduler {
  [[nodiscard]] static auto of(torch::optim::LRScheduler& scheduler) -> unsigned&;
};

}  // namespace raytrain::detail

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

template <TorchState T>
[[nodiscard]] auto state_of(T const& value) -> auto& {
  if constexpr (TorchModule<T>) {
    return raytrain::module_of(value);
  } else {
    return const_cast<T&>(value);  // loading fills it; storing only reads
  }
}

/// Name, shape and type of all that a checkpoint of the module holds.
struct TensorFormat {
  std::string name;
  std::vector<std::int64_t> sizes;
  at::ScalarType type{};
  friend auto operator==(TensorFormat const&, TensorFormat const&) -> bool = default;

  [[nodiscard]] auto shape() const -> std::string;
};

[[nodiscard]] auto formats_of(torch::nn::Module const& module) -> std::vector<TensorFormat>;

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

/// Adds the file of that name: tensors or an archive. `parameters`: an optimizer's.
template <TorchState T>
void add_state(CheckpointDraft& draft, T const& value, std::string const& name, ParameterNames const& parameters = {});

/// Errors: as `load`.
template <TorchState T>
void load_state(Checkpoint const& checkpoint, T& value, std::string const& name, ParameterNames const& parameters = {});

/// Errors: `backend` where the archive has different tensors for one that the module has by two names.
void check_shared(torch::serialize::InputArchive& archive, torch::nn::Module const& module, std::string_view attempted);

}  // namespace detail

/// The state as bytes of LibTorch's own file format, which torch::load and torch.jit.load read.
///
/// Errors: `backend`.
/// Cost: memory for the bytes, once.
template <TorchState T>
[[nodiscard]] auto state_to_bytes(T const& value) -> Bytes {
  return detail::torch_call("storing a state", [&] {
    Bytes bytes;
    auto& state = detail::state_of(value);
    torch::serialize::OutputArchive archive{std::make_shared<torch::jit::CompilationUnit>()};
    if constexpr (detail::is_scheduler<T>) {
      archive.write("step_count", c10::IValue{static_cast<std::int64_t>(detail::SchedulerSteps::of(state))});
    } else {
      state.save(archive);
    }
    // Counted first: growing would hold them twice, and takes longer.
    std::size_t size_bytes = 0;
    archive.save_to([&](void const*, std::size_t size) {
      size_bytes += size;
      return size;
    });
    bytes.reserve(size_bytes);
    archive.save_to([&](void const* data, std::size_t size) {
      auto const* const first = static_cast<std::byte const*>(data);
      bytes.insert(bytes.end(), first, first + size);
      return size;
    });
    return bytes;
  });
}

/// Fills `value` with what `state_to_bytes` gave. `attempted` begins the message of an error.
///
/// Gradients stay as they are, and so does what `prepare_model` attached. An optimizer gets its learning rates back.
/// Errors: `backend` for bytes that are not such, for a state of other names, shapes or types, and for different
///         tensors where `value` has one by two names; it is then to be thrown away.
template <TorchState T>
void state_from_bytes(BytesView bytes, T& value, std::string_view attempted = "loading a state") {
  auto& state = detail::state_of(value);
  auto const load = [&] {
    torch::serialize::InputArchive archive;
    auto const* const begin = reinterpret_cast<char const*>(bytes.data());
    if constexpr (std::derived_from<T, torch::optim::Optimizer>) {
      archive.load_from(begin, bytes.size(), detail::device_of(state));
    } else {
      archive.load_from(begin, bytes.size());
    }
    if constexpr (detail::is_scheduler<T>) {
      c10::IValue steps;
      archive.read("step_count", steps);
      detail::SchedulerSteps::of(state) = static_cast<unsigned>(steps.toInt());
    } else {
      if constexpr (TorchModule<T>) detail::check_shared(archive, state, attempted);
      state.load(archive);
    }
    if constexpr (std::derived_from<T, torch::optim::Optimizer>) detail::load_learning_rates(archive, state);
  };
  if constexpr (TorchModule<T>) {
    auto const expected = detail::formats_of(state);
    detail::torch_call(attempted, load, detail::state_remedy);
    auto const found = detail::formats_of(state);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == found[i]) continue;
      throw Error{
          Errc::backend, std::string{attempted},
          fmt::format("'{}' is {} there and {} in this model", expected[i].name, found[i].shape(), expected[i].shape()),
          detail::state_remedy};
    }
  } else {
    detail::torch_call(attempted, load, detail::state_remedy);
  }
}

template <TorchState T>
void detail::add_state(CheckpointDraft& draft, T const& value, std::string const& name,
                       [[maybe_unused]] ParameterNames const& parameters) {
  constexpr auto attempted = "storing a state";
  if constexpr (TorchModule<T>) {
    if (add_model(draft,
                  torch_call(
                      attempted, [&]() -> auto& { return detail::state_of(value); }),
                  name))
      return;
  } else if constexpr (!is_scheduler<T>) {
    if (add_optimizer(draft, value, name, parameters)) return;
  }
  draft.add(archive_name(name), state_to_bytes(value));
}

template <TorchState T>
void detail::load_state(Checkpoint const& checkpoint, T& value, std::string const& name,
                        [[maybe_unused]] ParameterNames const& parameters) {
  auto const attempted = [&](std::string const& file) { return "loading " + checkpoint.location() + "/" + file; };
  auto const archive = archive_name(name);
  if constexpr (!is_scheduler<T>) {
    auto const tensors = tensors_name(name);
    if (checkpoint.contains(tensors) || !checkpoint.contains(archive)) {
      auto const file = checkpoint.view(tensors);
      if constexpr (TorchModule<T>) {
        load_model(file.view(),
                   torch_call(
                       attempted(tensors), [&]() -> auto& { return detail::state_of(value); }),
                   attempted(tensors));
      } else {
        load_optimizer(file.view(), value, attempted(tensors), parameters);
      }
      return;
    }
  }
  auto const file = checkpoint.view(archive);
  state_from_bytes(file.view(), value, attempted(archive));
}

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/torch_checkpoint-inl.hpp>
#endif
