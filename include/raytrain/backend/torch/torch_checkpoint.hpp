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
#include <utility>
#include <vector>

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
    return module_of(value);
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

/// The file of a model's, an optimizer's or a scheduler's state in a checkpoint, where it is an archive of LibTorch's.
template <TorchState T>
inline constexpr auto archive_name = TorchModule<T>    ? "model.pt"
                                     : is_scheduler<T> ? "scheduler.pt"
                                                       : "optimizer.pt";

/// The same, where it is tensors that Python's safetensors reads.
template <TorchState T>
inline constexpr auto tensors_name = TorchModule<T> ? "model.safetensors" : "optimizer.safetensors";

template <TorchCompanion... T>
inline constexpr bool is_at_most_one_each = (0 + ... + (is_scheduler<T> ? 1 : 0)) <= 1 &&
                                            (0 + ... + (std::derived_from<T, torch::optim::Optimizer> ? 1 : 0)) <= 1;

/// Adds the module's tensors to a draft; false, and nothing is added, if it stores more than such.
[[nodiscard]] auto add_model(CheckpointDraft& draft, torch::nn::Module const& module) -> bool;

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
[[nodiscard]] auto add_optimizer(CheckpointDraft& draft, torch::optim::Optimizer const& optimizer) -> bool;

/// Whether this is the rank that stores it, for one that all ranks store together; none for any other.
[[nodiscard]] auto is_stored_here(torch::optim::Optimizer const& optimizer) -> std::optional<bool>;

/// Errors: `corrupt_checkpoint`; `backend` when it is of another optimizer.
void load_optimizer(BytesView file, torch::optim::Optimizer& optimizer, std::string_view attempted);

template <TorchState T>
void add_state(CheckpointDraft& draft, T const& value);

template <TorchState T>
void load_state(Checkpoint const& checkpoint, T& value);

/// As `load`. Returns what people should know of.
template <TorchModule M, TorchCompanion... T>
auto load_all(Checkpoint const& checkpoint, M& model, T&... companion) -> std::vector<std::string>;

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
/// Errors: `backend` for bytes that are not such, and for a state of other names, shapes or types; `value` is then to
///         be thrown away.
template <TorchState T>
void state_from_bytes(BytesView bytes, T& value, std::string_view attempted = "loading a state") {
  auto& state = detail::state_of(value);
  auto const load = [&] {
    torch::serialize::InputArchive archive;
    archive.load_from(reinterpret_cast<char const*>(bytes.data()), bytes.size());
    if constexpr (detail::is_scheduler<T>) {
      c10::IValue steps;
      archive.read("step_count", steps);
      detail::SchedulerSteps::of(state) = static_cast<unsigned>(steps.toInt());
    } else {
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

/// State that is the same on every rank, for `report`: model.safetensors, optimizer.safetensors and scheduler.pt if
/// there are such, and the files of what else is given. Rank 0 stores it inside `report`, to which the others give
/// their parts of a `ShardedOptimizer`; until then all must live. `ReduceLROnPlateauScheduler` cannot be stored (see
/// `TorchStepper`), `ReduceOnPlateau` can.
///
/// Python reads model.safetensors by `safetensors.torch.load_file`. A model whose `save` stores more than parameters
/// and buffers, or tensors that such a file cannot hold, becomes an archive of LibTorch's, model.pt; so does an
/// optimizer that stores itself in another way than LibTorch's do, optimizer.pt.
///
/// For more than that, fill a draft of your own:
/// `CheckpointDraft::replicated([&](auto& draft) { draft.add("critic.pt", state_to_bytes(critic)); })`.
template <TorchModule M, TorchCompanion... T>
[[nodiscard]] auto save(M const& model, T const&... companion) -> CheckpointDraft {
  static_assert(detail::is_at_most_one_each<T...>,
                "raytrain: save() takes a model, at most one optimizer and at most one scheduler");
  std::optional<bool> is_stored_here;  // where all ranks store an optimizer together
  [[maybe_unused]] auto const ask = [&]<class S>(S const& value) {
    if constexpr (std::derived_from<S, torch::optim::Optimizer>) is_stored_here = detail::is_stored_here(value);
  };
  (ask(companion), ...);
  CheckpointDraft::Fill fill = [is_stored_here, &model, &... companion = companion](CheckpointDraft& draft) {
    auto const is_here = is_stored_here.value_or(true);
    if (is_here) detail::add_state(draft, model);
    [[maybe_unused]] auto const add = [&]<class S>(S const& value) {
      if constexpr (std::derived_from<S, torch::optim::Optimizer>) {
        detail::add_state(draft, value);
      } else if constexpr (TorchStepper<S>) {
        if (is_here) detail::add_state(draft, value);
      } else {
        if (is_here) value.add_to(draft);
      }
    };
    (add(companion), ...);
  };
  return is_stored_here ? CheckpointDraft::sharded(std::move(fill)) : CheckpointDraft::replicated(std::move(fill));
}

/// Fills a model, and what else is given, with what `save` put into a checkpoint, also that of an earlier version,
/// which stored each as an archive. Parameters and buffers stay where they lie, so that others that share their memory
/// change, too. `load` of a module of the program's finds its tensors filled; it is not asked where the checkpoint's
/// are others than the module's, as of an earlier version of it.
///
/// Errors: those of `Checkpoint::read`, `not_found` among them when the checkpoint has neither model.safetensors nor
///         model.pt; `backend` when it is of another model, with the names and shapes that differ.
template <TorchModule M, TorchCompanion... T>
void load(Checkpoint const& checkpoint, M& model, T&... companion) {
  static_assert(detail::is_at_most_one_each<T...>,
                "raytrain: load() takes a model, at most one optimizer and at most one scheduler");
  (void)detail::load_all(checkpoint, model, companion...);
}

template <TorchModule M, TorchCompanion... T>
auto detail::load_all(Checkpoint const& checkpoint, M& model, T&... companion) -> std::vector<std::string> {
  load_state(checkpoint, model);
  [[maybe_unused]] auto const load_stepper = [&]<class S>(S& value) {
    if constexpr (TorchStepper<S>) load_state(checkpoint, value);
  };
  std::vector<std::string> news;
  [[maybe_unused]] auto const load_other = [&]<class S>(S& value) {
    if constexpr (!TorchStepper<S>) {
      if (auto text = value.load_from(checkpoint); !text.empty()) news.push_back(std::move(text));
    }
  };
  (load_stepper(companion), ...);
  (load_other(companion), ...);  // a schedule sets the optimizer's rates
  return news;
}

template <TorchState T>
void detail::add_state(CheckpointDraft& draft, T const& value) {
  constexpr auto attempted = "storing a state";
  if constexpr (TorchModule<T>) {
    if (add_model(draft, torch_call(
                             attempted, [&]() -> auto& { return state_of(value); })))
      return;
  } else if constexpr (!is_scheduler<T>) {
    if (add_optimizer(draft, value)) return;
  }
  draft.add(archive_name<T>, state_to_bytes(value));
}

template <TorchState T>
void detail::load_state(Checkpoint const& checkpoint, T& value) {
  auto const attempted = [&](char const* name) { return "loading " + checkpoint.location() + "/" + name; };
  if constexpr (!is_scheduler<T>) {
    auto const* const name = tensors_name<T>;
    if (checkpoint.contains(name) || !checkpoint.contains(archive_name<T>)) {
      auto const file = checkpoint.view(name);
      if constexpr (TorchModule<T>) {
        load_model(file.view(),
                   torch_call(
                       attempted(name), [&]() -> auto& { return state_of(value); }),
                   attempted(name));
      } else {
        load_optimizer(file.view(), value, attempted(name));
      }
      return;
    }
  }
  auto const* const name = archive_name<T>;
  auto const file = checkpoint.view(name);
  state_from_bytes(file.view(), value, attempted(name));
}

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/torch_checkpoint-inl.hpp>
#endif
