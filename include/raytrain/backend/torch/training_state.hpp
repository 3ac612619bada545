// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/parameter_names.hpp>
#include <raytrain/backend/torch/grad_scaler.hpp>
#include <raytrain/backend/torch/local_model.hpp>
#include <raytrain/backend/torch/lr_schedule.hpp>
#include <raytrain/backend/torch/torch_checkpoint.hpp>
#include <raytrain/backend/torch/torch_module.hpp>
#include <raytrain/backend/torch/torch_shard.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpointed.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/current_error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/blocks_position.hpp>
#include <raytrain/message/object_bytes.hpp>

namespace raytrain {

namespace detail {

/// What lies in a file of a name that is given, as `EarlyStopping` does.
template <class T>
concept CheckpointedByName = requires(T& value, T const& view, CheckpointDraft& draft, Checkpoint const& checkpoint,
                                      std::string const& file) {
  { T::file_name } -> std::convertible_to<std::string>;
  { view.add_to(draft, file) } -> std::same_as<void>;
  { value.load_from(checkpoint, file) } -> std::same_as<std::string>;
};

}  // namespace detail

/// What a `TrainingState` can consist of: a model, an optimizer, a scheduler, what is `Checkpointed`, a shard, a
/// data loader, a generator of random numbers, and whatever can be serialized: numbers, strings, vectors, structs with
/// a `serialize` function.
template <class T>
concept TrainingPart = TorchModule<T> || TorchCompanion<T> || std::derived_from<T, TorchShard> ||
    std::same_as<T, at::Generator> || Transferable<T>;

/// Everything with which a training goes on, said once, for `TorchContext::restore` and `save`:
///
///     TrainingState state{model, optimizer, schedule, shard, {"progress", progress}};
///     for (auto epoch = ctx.restore(state); epoch < epochs; ++epoch) {
///       for (auto batch : shard.batches({.batch_size = 64, .epoch = epoch})) { ... }
///       ctx.report(Epoch{...}, save(state));
///     }
///
/// Each part has a name, by which a checkpoint knows it: one that is given, as a second model's must be,
/// `TrainingState{{"maker", maker}, {"judge", judge}, {"maker_adam", maker_adam}, {"judge_adam", judge_adam}}`, or
/// "model", "optimizer", "scheduler", "schedule", "grad_scaler", "early_stopping", "averaged_model", "diloco",
/// "generator". Models lie in NAME.safetensors. A shard has its dataset's name, and a data loader the one that it was
/// made with.
///
/// Each worker has its own: generators; values, as `progress`; a `LocalModel`, its optimizers, and beside it schedules,
/// scalers, averages, and other classes whose `add_to` takes a file's name. The same on every worker: everything else,
/// also a `DiLoCo`, and other models with their optimizers.
///
/// With another number of workers a value goes on where all workers had the same one. Otherwise it begins as it was
/// made, a `BlocksPosition` at its epoch, and a warning says so. Generators get new seeds.
///
/// Refers to the parts, which must live as long.
///
/// Threads: the worker's.
class TrainingState {
 public:
  /// One part, by reference.
  class Part {
   public:
    template <TrainingPart T>
    Part(T& value) : Part{default_name<T>(value), value, is_unnamed} {}  // NOLINT(google-explicit-constructor)

    template <TrainingPart T>
    Part(std::string_view name, T& value) : Part{std::string{name}, value, is_named} {
      static_assert(!std::derived_from<T, TorchShard>,
                    "raytrain: a shard has its dataset's name, and a data loader its own; give it without one");
    }

   private:
    friend class TrainingState;

    enum Naming : bool { is_unnamed, is_named };

    template <class T>
    Part(std::string name, T& value, Naming naming);

    template <class T>
    [[nodiscard]] static auto default_name([[maybe_unused]] T const& value) -> std::string;

    void keep_state(std::function<detail::StateOwner()> find);
    void keep_own(std::string file, std::function<Bytes()> to_bytes,
                  std::function<void(BytesView, std::string const& attempted)> from_bytes);

    std::string name_;
    std::string kind_;  // as messages have it
    // In a folder of the checkpoint: "", or a rank's with '/'. An optimizer needs its parameters' names.
    std::function<void(CheckpointDraft&, std::string const& folder, detail::ParameterNames const&)> add_;
    // Returns what people should know of.
    std::function<std::string(Checkpoint const&, std::string const& folder, detail::ParameterNames const&)> load_;
    std::function<torch::nn::Module const*()> find_module_;  // of a model; gives null for an empty holder
    // Of a model that each worker trains by itself, of its optimizers, and of what is kept beside it.
    std::optional<Rank> local_rank_;
    // That `add_` writes to a folder; empty where its name follows from how it is stored.
    std::string file_;
    // Of what is each worker's own.
    std::string own_file_;
    std::function<Bytes()> to_bytes_;
    std::function<void(BytesView, std::string const&)> from_bytes_;
    // Of what another number of workers begins anew: fills it from what each of those before had, and returns what
    // people should know of. Empty: it begins as it was made.
    std::function<std::string(std::vector<Bytes> const& of_ranks, WorldSize workers)> from_others_;
    at::Generator* generator_ = nullptr;
    // Null, unless it is such.
    torch::nn::Module const* module_ = nullptr;
    torch::optim::Optimizer* optimizer_ = nullptr;
    LrSchedule* schedule_ = nullptr;
    GradScaler* scaler_ = nullptr;
    TorchShard* shard_ = nullptr;
    bool names_file_ = true;
    bool is_model_ = false;
    bool is_scheduler_ = false;
    std::function<void()> begin_from_model_;  // what begins with the model that was filled; or empty
    bool changes_others_ = false;             // sets rates, or a model; and is loaded behind these
  };

  /// Errors: `invalid_call` for a name that is empty, has a '/' or is given twice, and for two schedules of one
  ///         optimizer; `invalid_report` for other names that no file can have.
  TrainingState(std::initializer_list<Part> parts);

 private:
  friend class TorchContext;
  friend auto save(TrainingState const& state) -> CheckpointDraft;
  friend void load(Checkpoint const& checkpoint, TrainingState const& state);

  /// Who goes on.
  struct Worker {
    Rank rank{};
    WorldSize world_size{1};
  };

  /// Of each kind, in the order in which they were given.
  [[nodiscard]] auto optimizers() const -> std::vector<torch::optim::Optimizer*>;
  [[nodiscard]] auto schedules() const -> std::vector<LrSchedule*>;
  [[nodiscard]] auto shards() const -> std::vector<TorchShard*>;
  /// Of the first scaler; expired where there is none.
  [[nodiscard]] auto followed_scaler() const -> std::weak_ptr<detail::ScalerState const>;
  [[nodiscard]] auto has_scheduler() const -> bool;
  /// Fills the models alone, with rank 0's; the rest begins as it was made. A group operation. Returns what people
  /// should know of.
  ///
  /// Errors: as `load`.
  auto load_models(Checkpoint const& checkpoint) const -> std::vector<std::string>;

  [[nodiscard]] auto to_draft() const -> CheckpointDraft;

  /// Whether the checkpoint must have these parts alone.
  enum class Extent { these, all };

  /// Gives each part what the checkpoint has of it. Returns what people should know of.
  ///
  /// Errors: as `load`.
  auto load_parts(Checkpoint const& checkpoint, Worker worker, Extent extent) const -> std::vector<std::string>;

  /// Which parts the checkpoint has and this has not, or the reverse, or as another kind of thing, by their names;
  /// empty where it does not say.
  [[nodiscard]] auto differences(Checkpoint const& checkpoint) const -> std::map<std::string, std::string>;

  /// Where the checkpoint has it of a rank, if it was each worker's own; of rank 0 in "".
  [[nodiscard]] static auto file_in(Part const& part, Checkpoint const& checkpoint, std::string const& folder)
      -> std::string;
  /// What people should know of where all begin with rank 0's: empty where all workers had the same.
  [[nodiscard]] static auto lost_of_others(Part const& part, Checkpoint const& checkpoint) -> std::string;

  /// As the models among the parts name those of an optimizer; empty unless all are theirs.
  [[nodiscard]] static auto parameter_names(Part const& part, std::vector<Part> const& parts) -> detail::ParameterNames;

  /// A part with `load_`.
  [[nodiscard]] auto load_file(Part const& part, Checkpoint const& checkpoint, Worker worker, Extent extent) const
      -> std::string;
  [[nodiscard]] static auto load_own(Part const& part, Checkpoint const& checkpoint, Worker worker) -> std::string;

  std::vector<Part> parts_;
};

/// The state for `report`: of what is the same on every rank, rank 0 stores its own inside `report`, to which the
/// others give their parts of a `ShardedOptimizer`; until then all must live. What is each worker's own is copied at
/// once.
///
/// Python reads a model's file, NAME.safetensors, by `safetensors.torch.load_file`. A model whose `save` stores more
/// than parameters and buffers, or tensors that such a file cannot hold, becomes an archive of LibTorch's, NAME.pt; so
/// does an optimizer that stores itself in another way than LibTorch's do.
///
/// An optimizer's state is stored with the names that the state's models give its parameters, if all of these are
/// theirs.
///
/// `ReduceLROnPlateauScheduler` cannot be stored (see `TorchStepper`), `ReduceOnPlateau` can.
[[nodiscard]] auto save(TrainingState const& state) -> CheckpointDraft;

/// Fills the parts with what `save` put into a checkpoint, also that of an earlier version. Outside of a run, or for
/// some of the parts: others may be there. Of what was each worker's own it takes rank 0's; shards stay where they are.
///
/// Parameters and buffers stay where they lie, so that others that share their memory change, too. `load` of a module
/// of the program's finds its tensors filled; it is not asked where the checkpoint's are others than the module's, as
/// of an earlier version of it.
///
/// An optimizer's parameters may have another order than before, where their names are known here and there; else they
/// are taken in order.
///
/// Errors: those of `Checkpoint::read`, `not_found` among them when the checkpoint has no file of the part; `backend`
///         when it is of another model, with the names and shapes that differ, or has different tensors, or states of
///         an optimizer, where this has one tensor by two names, or an optimizer's parameters have other names. Where
///         several parts fail, one `backend` that tells of all.
void load(Checkpoint const& checkpoint, TrainingState const& state);

/// The same for a state of parts without names, of which the first one is a model: `save(model, optimizer)` is
/// `save(TrainingState{model, optimizer})`.
template <TorchModule M, TorchCompanion... T>
[[nodiscard]] auto save(M const& model, T const&... companion) -> CheckpointDraft {
  // Storing only reads.
  return save(TrainingState{const_cast<M&>(model), const_cast<T&>(companion)...});
}

template <TorchModule M, TorchCompanion... T>
void load(Checkpoint const& checkpoint, M& model, T&... companion) {
  load(checkpoint, TrainingState{model, companion...});
}

template <class T>
TrainingState::Part::Part(std::string name, T& value, Naming naming) : name_{std::move(name)} {
  if constexpr (TorchModule<T> || TorchStepper<T>) {
    is_model_ = TorchModule<T>;
    if constexpr (detail::is_local_model<T>) {
      module_ = &raytrain::module_of(value);
      local_rank_ = value.rank();
    }
    is_scheduler_ = detail::is_scheduler<T>;
    kind_ = is_model_ ? "model" : is_scheduler_ ? "scheduler" : "optimizer";
    if constexpr (std::derived_from<T, torch::optim::Optimizer>) optimizer_ = &value;
    if constexpr (TorchModule<T>) find_module_ = [&value] { return detail::module_or_null(value); };
    keep_state([&value] { return detail::state_owner(value); });
  } else if constexpr (detail::CheckpointedByName<T>) {
    if constexpr (std::derived_from<T, LrSchedule>) schedule_ = &value;
    if constexpr (std::same_as<T, GradScaler>) scaler_ = &value;
    is_scheduler_ = changes_others_ = schedule_ != nullptr;
    if constexpr (requires { value.begin_from_model(); }) {
      begin_from_model_ = [&value] { value.begin_from_model(); };
      changes_others_ = true;
    }
    kind_ = is_scheduler_ ? "schedule" : detail::demangled(typeid(T).name());
    std::filesystem::path const usual{std::string{T::file_name}};
    auto file = naming == is_named ? name_ + usual.extension().string() : usual.string();
    add_ = [&value, file](CheckpointDraft& draft, std::string const& folder, auto const&) {
      value.add_to(draft, folder + file);
    };
    load_ = [&value, file](Checkpoint const& checkpoint, std::string const& folder, auto const&) {
      return value.load_from(checkpoint, folder + file);
    };
    file_ = std::move(file);
  } else if constexpr (Checkpointed<T>) {
    kind_ = detail::demangled(typeid(T).name());
    names_file_ = false;
    add_ = [&value](CheckpointDraft& draft, auto const&...) { value.add_to(draft); };
    load_ = [&value](Checkpoint const& checkpoint, auto const&...) { return value.load_from(checkpoint); };
  } else if constexpr (std::derived_from<T, TorchShard>) {
    kind_ = "shard";
    shard_ = &value;
  } else if constexpr (std::same_as<T, at::Generator>) {
    kind_ = "generator";
    generator_ = &value;
    keep_own(
        name_ + ".generator", [&value] { return detail::generator_to_bytes(value); },
        [&value](BytesView bytes, std::string const& attempted) {
          detail::generator_from_bytes(bytes, value, attempted);
        });
  } else {
    static_assert(Transferable<T>);
    kind_ = "value of type " + detail::demangled(typeid(T).name());
    keep_own(
        name_ + ".value", [&value] { return to_bytes(value); },
        [&value](BytesView bytes, std::string const&) { value = from_bytes<T>(bytes); });
    if constexpr (std::same_as<T, BlocksPosition>) {
      from_others_ = [&value](std::vector<Bytes> const& of_ranks, WorldSize workers) {
        std::vector<BlocksPosition> positions;
        for (auto const& bytes : of_ranks) positions.push_back(from_bytes<BlocksPosition>(bytes));
        value = BlocksPosition::begin_of_epoch(positions);
        return value.text_of_begin({.before = positions.size(), .now = workers.value});
      };
    }
  }
}

template <class T>
auto TrainingState::Part::default_name(T const& value) -> std::string {
  if constexpr (TorchModule<T>) {
    return "model";
  } else if constexpr (detail::is_scheduler<T>) {
    return "scheduler";
  } else if constexpr (TorchStepper<T>) {
    return "optimizer";
  } else if constexpr (detail::CheckpointedByName<T>) {
    return std::filesystem::path{std::string{T::file_name}}.stem().string();
  } else if constexpr (Checkpointed<T>) {
    return detail::demangled(typeid(T).name());
  } else if constexpr (std::derived_from<T, TorchShard>) {
    return value.name();
  } else {
    static_assert(std::same_as<T, at::Generator>, "raytrain: give this part a name: {\"progress\", progress}");
    return "generator";
  }
}

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/training_state-inl.hpp>
#endif
