// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/autocast.hpp>
#include <raytrain/backend/torch/data_loader.hpp>
#include <raytrain/backend/torch/detail/data_loaders.hpp>
#include <raytrain/backend/torch/detail/device_copies.hpp>
#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/gradient_averager.hpp>
#include <raytrain/backend/torch/detail/joined_batch.hpp>
#include <raytrain/backend/torch/detail/loss_check.hpp>
#include <raytrain/backend/torch/detail/model_exchange.hpp>
#include <raytrain/backend/torch/detail/own_default_generator.hpp>
#include <raytrain/backend/torch/detail/prepared_models.hpp>
#include <raytrain/backend/torch/detail/shadow_backward.hpp>
#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/backend/torch/detail/tensors_of_ranks.hpp>
#include <raytrain/backend/torch/detail/worker_device.hpp>
#include <raytrain/backend/torch/detail/worker_step.hpp>
#include <raytrain/backend/torch/elementwise_optimizer.hpp>
#include <raytrain/backend/torch/grad_scaler.hpp>
#include <raytrain/backend/torch/local_model.hpp>
#include <raytrain/backend/torch/lr_schedule.hpp>
#include <raytrain/backend/torch/model_options.hpp>
#include <raytrain/backend/torch/non_finite.hpp>
#include <raytrain/backend/torch/sharded_optimizer.hpp>
#include <raytrain/backend/torch/step_times.hpp>
#include <raytrain/backend/torch/torch_config.hpp>
#include <raytrain/backend/torch/torch_module.hpp>
#include <raytrain/backend/torch/torch_shard.hpp>
#include <raytrain/backend/torch/training_state.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/data/dataset_shard.hpp>
#include <raytrain/message/report_fields.hpp>
#include <raytrain/train/train_context.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

/// What a training function of `TorchBackend` receives.
///
/// Threads: the worker's own only. The worker's tensor operations use `cpus()` threads.
class TorchContext : public TrainContext {
 public:
  explicit TorchContext(WorkerSetup setup, TorchConfig const& config = {}, ScalingConfig const& scaling = {});
  ~TorchContext() { worker_step_->on_turn = {}; }
  TorchContext(TorchContext const&) = delete;
  auto operator=(TorchContext const&) -> TorchContext& = delete;

  /// Builds a model and makes it train with all others: rank 0's parameters and buffers everywhere, gradients averaged
  /// when a backward ends (of the last batch of a window, with `accumulate`), then buffers those of rank 0 (where
  /// a rank has changed one). A parameter that no rank used has no gradient, and counts as zero on a rank that
  /// alone did not use it.
  ///
  /// Every rank runs as many backwards of each model, in the same order. All ranks get an error that says so when one
  /// runs the backward of another model, calls another collective, ends earlier, or has taken another number of batches
  /// of split datasets. Data of the program's own is not counted: where each rank leaves out as many steps as the
  /// others, the n-th backward of one is averaged with the n-th of the others, on whatever data; else see `join`.
  ///
  /// With `ScalingConfig::virtual_shards` gradients are averaged over all shards when the backward of a batch ends that
  /// `ends_step()`; before it the program sees none of that step. Each batch begins with the buffers that the model had
  /// before the step, and those of shard 0 are what the step leaves. Errors of such a backward: `invalid_call` without
  /// a batch of a split dataset, when parameters change within a step, and when some batch of it has more or fewer
  /// backwards than its first one.
  ///
  /// `make` is called by one worker of the process at a time, but for collectives in it, with LibTorch's default
  /// generator seeded from the run's seed: the same model on every rank, and on every run. Then that generator,
  /// the CPU's, goes on where it was. Returns a holder (`model->forward(x)`, `model(x)`) of a module by value, and what
  /// else `make` returns as it is. Every rank prepares the same models in the same order. Averaging ends with the
  /// training function, or when the model and its parameters are gone. Prepared once more, a model is averaged as it is
  /// then: what was unfrozen or registered since is refused otherwise.
  ///
  /// Gradients of 16 bits are summed in float, and the average is rounded.
  ///
  /// Errors: `backend` for gradients of another type than float, double, Half and BFloat16, or elsewhere; as
  ///         `ModelOptions::validate`, and `invalid_config` for an exchange with virtual shards; `invalid_call` for one
  ///         that another model uses, for a holder without a model, for a parameter in common with another model where
  ///         one has `Overlap::on`, and for a `SyncBatchNorm` or gradients of 16 bits with virtual shards;
  ///         `rank_mismatch` on all ranks for options, or models, that differ between them: in names, their order,
  ///         shapes, types, or which parameters want a gradient; `backend` for a tensor that is sparse.
  template <TorchModuleFactory F>
  [[nodiscard]] auto prepare_model(F make, ModelOptions const& options = {}) {
    options.validate(virtual_shards());
    auto model = build(make);
    auto& module = detail::module_to_prepare(model);
    device_.place(module);
    models_.train_together(module, options);
    return model;
  }

  /// The same for a model that is there already, a local one, too, whose holder comes without the `LocalModel`.
  template <TorchModule M>
  [[nodiscard]] auto prepare_model(M model, ModelOptions const& options = {}) {
    options.validate(virtual_shards());
    auto held = raytrain::hold_module([&] { return detail::as_no_local_model(std::move(model)); });
    auto& module = detail::module_to_prepare(held);
    device_.place(module);
    models_.train_together(module, options);
    return held;
  }

  /// TorchScript, as `torch::jit::load` returns it: the same for a `ScriptModule` of a copy of it, since workers may
  /// have one and the same.
  [[nodiscard]] auto prepare_model(torch::jit::Module const& script, ModelOptions const& options = {}) {
    return prepare_model(raytrain::hold_module([&] { return script.deepcopy(); }), options);
  }

  /// A model that each worker trains by itself: rank 0's parameters and buffers everywhere, as `prepare_model` gives
  /// them, but no gradient is averaged, and a backward exchanges nothing. `average_parameters` makes the workers'
  /// models one again, for local SGD: every so many steps, by optimizers of each worker's own.
  ///
  ///     auto model = ctx.prepare_local_model([] { return Net{}; });
  ///     torch::optim::SGD optimizer{model->parameters(), 0.1};
  ///     ...
  ///     loss.backward();
  ///     optimizer.step();
  ///     if (++steps % 16 == 0) ctx.average_parameters(model);
  ///
  /// Of a model that `prepare_model` has prepared, gradients are no longer averaged, no `SyncBatchNorm` joins batches
  /// and no `ShardedOptimizer` steps it as long; and the reverse. `accumulate` has no effect on its gradients.
  ///
  /// Errors: `invalid_call` with virtual shards; `rank_mismatch` on all ranks and `backend` as `prepare_model`.
  /// Source: S. Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019.
  template <TorchModuleFactory F>
  [[nodiscard]] auto prepare_local_model(F make) {
    return to_local_model(build(make));
  }

  /// The same for a model that is there already.
  template <TorchModule M>
  [[nodiscard]] auto prepare_local_model(M model) {
    return to_local_model(raytrain::hold_module([&] { return detail::as_no_local_model(std::move(model)); }));
  }

  /// Makes parameters and buffers of floating-point numbers their mean over all workers, the same bits on each, and
  /// others rank 0's. Those of 16 bits are added in 32. Gradients and optimizers stay as they are. Every rank calls it,
  /// behind a step.
  ///
  /// Errors: `rank_mismatch` on all ranks when one averages another model, or calls something else.
  /// Source: PyTorch's `PeriodicModelAverager`.
  template <TorchModule M>
  void average_parameters(LocalModel<M> const& model) {
    detail::average_model(raytrain::module_of(model), model.number(), collective());
  }

  /// An optimizer of the model's parameters, of which each worker updates a slice: `prepare_optimizer<AdamW>(model,
  /// {3e-4})`. SGD, Adam, AdamW, RMSprop, Adagrad, `Adadelta`, and what `ElementwiseOptimizer` is specialized
  /// for.
  ///
  /// Each worker has 1 / world size of its state, and the parameters get the bits that the whole optimizer on each
  /// worker gives them; also with virtual shards. Parameters move to other memory. Every rank makes the same call.
  /// Errors: `backend` for a model that `prepare_model` has not prepared since a parameter of it wants a gradient, and
  ///         for parameters that share memory without being the same; `rank_mismatch` for ranks of which one has
  ///         another optimizer, other options or other parameters.
  template <class O, TorchModule M>
  [[nodiscard]] auto prepare_optimizer(M const& model, typename ElementwiseOptimizer<O>::Options const& options = {})
      -> ShardedOptimizer {
    return prepare_optimizer<O>(model, {torch::optim::OptimizerParamGroup{raytrain::module_of(model).parameters()}},
                                options);
  }

  /// The same with groups of parameters, whose own options go before `options`.
  /// Errors: also `backend` for a tensor in them that is no parameter of the model.
  template <class O, TorchModule M>
  [[nodiscard]] auto prepare_optimizer(M const& model, std::vector<torch::optim::OptimizerParamGroup> groups,
                                       typename ElementwiseOptimizer<O>::Options const& options) -> ShardedOptimizer {
    static_assert(!detail::is_local_model<M>,
                  "raytrain: each worker trains a local model by an optimizer of its own: "
                  "torch::optim::Adam optimizer{model->parameters(), 1e-3}");
    auto const& module = raytrain::module_of(model);
    return ShardedOptimizer{{.module = module,
                             .averager = models_.averager_of(module),
                             .collective = collective(),
                             .arrays = device_.arrays(),
                             .on_device = device_.on_device(),
                             .device = device(),
                             .number = ++optimizers_,
                             .groups = std::move(groups),
                             .defaults = std::make_unique<typename ElementwiseOptimizer<O>::Options>(options),
                             .make =
                                 [options](std::vector<torch::optim::OptimizerParamGroup> own) {
                                   return std::make_unique<O>(std::move(own), options);
                                 },
                             .is_local = [this, module = &module] { return models_.is_local(*module); },
                             .timer = step_timer_}};
  }

  /// Counts the batch that was just taken, before its first backward: to be called for each batch. True in every
  /// `batches`-th one, where backwards average what the window of so many batches has summed up; then the optimizer
  /// steps. In the others backwards exchange nothing, and the program sees no gradient, so that a `zero_grad` there
  /// loses none.
  ///
  ///     auto const is_last = ctx.accumulate(4);
  ///     loss.backward();
  ///     if (!is_last) continue;
  ///     optimizer.step();
  ///
  /// Gradients are the mean of the window's batches, each counted by its samples: of a loss that is the mean of a
  /// batch, the gradient of one batch of all of these samples, but for the order of its sums and one rounding when the
  /// sum is divided. Batches of data of the program's own count alike. A model's backwards of one batch add up, and a
  /// batch without one counts as zero.
  ///
  /// The last batch of an epoch of a split dataset ends the window, however short. For other data `ends_data` says so;
  /// otherwise the window goes on in the next epoch, and there is a warning when the training function returns within
  /// one. `hand_over`, and `report` with a checkpoint, belong behind the last batch of a window.
  ///
  /// Every rank gives the same number, which may be another one for the next window. With virtual shards `batches` is
  /// 1, and the last batch of a step of all shards is the one for which it is true.
  ///
  /// Errors: `invalid_call` for less than 1, for another number within a window, with virtual shards for more than 1,
  ///         where two models have a parameter in common, and when a model had no backward in the last batch of the
  ///         window before, which left its gradients without an average; `rank_mismatch` by the backward when ranks end
  ///         a window after different numbers of batches, without `join`; `invalid_call` by the backward when
  ///         parameters have changed within a window.
  [[nodiscard]] auto accumulate(int batches, bool ends_data = false) -> bool;

  /// For workers with different numbers of batches of the program's own data: before each step, or each window of
  /// `accumulate`, each one says whether it has a batch. False on all of them when none has one.
  ///
  ///     for (auto batch = next(); ctx.join(batch.has_value()); batch = next()) {
  ///       optimizer.zero_grad();
  ///       batch ? loss_of(model, *batch).backward() : ctx.shadow_backward(model);
  ///       optimizer.step();
  ///     }
  ///
  /// Until the next call averaged gradients are the mean over the workers that have a batch, and buffers become the
  /// lowest such rank's. A `GradientExchange` gets gradients times world size / workers with a batch.
  ///
  /// Errors: `invalid_call` with virtual shards, within a window, and where two models have a parameter in common;
  ///         `rank_mismatch` when a rank leaves it out.
  /// Cost:   an all_gather of one byte each; nothing in a world of one.
  /// Source: PyTorch's `Join`, with `divide_by_initial_world_size=False`.
  [[nodiscard]] auto join(bool has_batch) -> bool;

  /// The backward of a worker without a batch, which adds nothing to the average, and gets it: as often as the others'.
  ///
  /// Errors: `invalid_call` unless this worker has told `join` that it has no batch, for a model that `prepare_model`
  ///         has not prepared, for one with a `SyncBatchNorm` in train mode, and within a window.
  template <TorchModule M>
  void shadow_backward(M const& model) {
    auto const& module = raytrain::module_of(model);
    detail::shadow_backward(module, models_.find_averager(module), *worker_step_);
  }

  /// Ends the training, or warns, when the loss, one number, is an infinity or a NaN: between a batch's forward and its
  /// backward, so that no rank has stepped by its gradient. Other ranks need not have such a loss: they are stopped
  /// where they would exchange with this one. Before `GradScaler::scale`, whose product may well be infinite.
  ///
  /// Errors: `NotRetryable`, naming rank, value, epoch and samples: from its checkpoint a run would come there again;
  ///         `invalid_call` for another number of numbers.
  void check_finite(at::Tensor const& loss, NonFinite then = NonFinite::stop);

  /// As of every context. The learning rates of each `LrSchedule` that `restore` was given go along as "lr" (see
  /// there), what a `GradScaler` has counted as "skipped_steps" and "loss_scale", and step times where `TorchConfig`
  /// says so; with a checkpoint, the states of `generator()` and of LibTorch's default generator go along.
  ///
  /// Errors: `backend` also for a model to which `prepare_model` should have been applied again; `invalid_call` with a
  /// checkpoint within a step of virtual shards, behind a batch that does not end it, and within a window of
  /// `accumulate`.
  template <class R>
  void report(R const& metrics) {
    models_.check_unchanged();
    auto const times = restart_step_timer();
    send(with_automatic(reported(metrics), times));
  }

  template <class R>
  void report(R const& metrics, CheckpointDraft draft) {
    auto const times = restart_step_timer();
    auto all = with_automatic(reported(metrics), times);
    send(std::move(all), filled(std::move(draft)));
  }

  /// Where this worker's time went since its last report began, or since its beginning: what to report, or to print.
  ///
  /// Cost: 7 clock readings a step with batches of two columns, two for each one more, 4 for the step of an optimizer
  ///       that `prepare_optimizer` has made for several workers; below a microsecond in all.
  [[nodiscard]] auto step_times() -> StepTimes { return step_timer_->times(); }

  /// As of every context, with the generators that go along with `report`.
  void hand_over(CheckpointDraft draft) {
    if (may_hand_over()) TrainContext::hand_over(filled(std::move(draft)));
  }

  /// For the worker's runner.
  void finish();

  /// This worker's part of the dataset, or all of it when `DataConfig` does not split it.
  ///
  /// Errors: `not_found`, listing the datasets that there are.
  [[nodiscard]] auto dataset_shard(std::string_view name) const -> TorchShard;

  /// This worker's part of a dataset of LibTorch's (`torch::data::datasets`), whose examples have numbers:
  ///
  ///     auto loader = ctx.data_loader("train", Photos{"photos"}.map(torch::data::transforms::Stack<>{}));
  ///     TrainingState state{model, optimizer, loader};
  ///     for (auto epoch = ctx.restore(state); epoch < epochs; ++epoch) {
  ///       for (auto batch : loader.batches({.batch_size = 64, .epoch = epoch}, {.threads = 2})) { ... batch.data ... }
  ///       ctx.report(Epoch{...}, save(state));
  ///     }
  ///
  /// The workers divide the examples as those of a split dataset: each has as many batches, in an order that follows
  /// from the run's seed and the epoch, and goes on within an epoch where a checkpoint was taken. With virtual shards
  /// `accumulate(1)` says behind which batch a step ends, and `is_padding()` which ones are not to be counted. A group
  /// operation: every rank makes the same loaders in the same order, each under a name of its own.
  ///
  /// Errors: `invalid_call` for a name that is empty, not UTF-8 or of several lines, that of a dataset of the run's, or
  ///         that of a loader of another number of examples; `invalid_data` for a dataset that is empty or does not
  ///         tell its size; `invalid_config` for fewer examples than workers; `rank_mismatch` on all ranks when one
  ///         makes another loader.
  template <class D>
  [[nodiscard]] auto data_loader(std::string_view name, D dataset) -> DataLoader<D> {
    auto const size = dataset.size();
    auto indices = loader_shard(name, size ? std::optional{*size} : std::nullopt);
    return {std::move(indices), std::move(dataset)};
  }

  /// As `TorchBatch::is_padding`, of the batch that was taken last: for loaders, whose batches do not say so.
  [[nodiscard]] auto is_padding() const noexcept -> bool {
    return worker_step_->turn && worker_step_->turn->is_padding;
  }

  /// Fills all parts of the state from the checkpoint that the run goes on from, if there is one; warns of settings
  /// that were others there. What draws random numbers goes on as well, where as many workers saved it (see
  /// `generator()`); otherwise it begins with other numbers than before. Returns the epoch to begin with: 0 at the
  /// beginning. With a shard in the state that is the first shard's, of which `batches` go on at the next sample, with
  /// any number of workers, or have none left where all were taken, and only what follows in the epoch was not done.
  /// Without, it is `first_epoch()`; rank 0 warns where the checkpoint is within an epoch of a dataset whose shard is
  /// not in the state.
  ///
  /// Of another run's checkpoint (`RunConfig::resume_from_checkpoint`) it takes the models alone, rank 0's where each
  /// worker had its own, and returns 0: optimizers, schedulers, what else is given and random numbers begin as they
  /// were made, with this run's learning rates. `load(*ctx.checkpoint(), ...)` takes more.
  ///
  /// Call it when all models are prepared. An optimizer's rates become those of the checkpoint; without a scheduler
  /// there is a warning if they were others. Reports have the rates of the schedules, in their order, as "lr", "lr_1"
  /// and so on. `ReduceLROnPlateauScheduler` cannot be restored: see `TorchStepper`.
  /// Errors: as `load`; also `backend` for parts that the checkpoint has and the state has not, or the reverse, which
  ///         are listed.
  [[nodiscard]] auto restore(TrainingState const& state) -> int;

  /// The same for a state of parts without names, of which the first one is a model; and of one with a shard.
  template <TorchModule M, TorchCompanion... T>
  [[nodiscard]] auto restore(M& model, T&... companion) -> int {
    return restore(TrainingState{model, companion...});
  }
  template <TorchModule M, TorchCompanion... T>
  [[nodiscard]] auto restore(TorchShard& shard, M& model, T&... companion) -> int {
    return restore(TrainingState{model, companion..., shard});
  }

  /// Lets this worker compute in another precision while the returned guard lives: see `Autocast`. The first one in
  /// a precision warns, on rank 0, where the processor has no instructions for it.
  ///
  /// Errors: `invalid_config` for `Precision::fp16` where this LibTorch cannot do it.
  [[nodiscard]] auto autocast(Precision precision) -> Autocast;

  /// Where this worker's tensors belong: models that it prepares and batches of its shards are there. The CPU, or its
  /// first GPU with `ScalingConfig::use_gpu`.
  [[nodiscard]] auto device() const noexcept -> torch::Device { return device_.device(); }
  /// All that it has.
  [[nodiscard]] auto devices() const -> std::vector<torch::Device> { return device_.devices(); }

  /// This worker's own random numbers, for operations that take a generator. They follow from the run's seed and the
  /// rank, whatever other workers do. So do the others of operations without one, as of dropout: where several workers
  /// share a process, each of them draws from a generator of its own in place of LibTorch's default one, with the
  /// numbers that a process of its own would give it. There `torch::manual_seed` has no effect but on what
  /// `prepare_model` calls, and threads that the program starts share LibTorch's. With virtual shards both are those of
  /// the batch's shard, from the batch's beginning to that of the next one or the end of the epoch, after which they
  /// are the worker's.
  [[nodiscard]] auto generator() noexcept -> at::Generator& { return generators_.own(); }
  /// The same for tensors on `device()`: on a GPU what operations without a generator draw from, as dropout does.
  [[nodiscard]] auto device_generator() -> at::Generator { return generators_.of_device(); }

 private:
  TorchContext(std::shared_ptr<detail::StepTimer> timer, WorkerSetup setup, TorchConfig const& config,
               ScalingConfig const& scaling);

  /// `TrainContext::fill`, and what this context adds: the states of its generators, epochs that are not finished, and
  /// how many examples its loaders have.
  [[nodiscard]] auto filled(CheckpointDraft draft) -> CheckpointDraft;

  /// Before anything of a report, which counts for the next one. Returns what it has measured.
  [[nodiscard]] auto restart_step_timer() const -> StepTimes;
  /// Adds the metrics of the schedules and of the scaler that are followed, and step times.
  [[nodiscard]] auto with_automatic(Reported reported, StepTimes const& times) const -> Reported;
  [[nodiscard]] auto followed_rates() const -> std::vector<double>;

  [[nodiscard]] auto loader_shard(std::string_view name, std::optional<std::size_t> examples) -> TorchShard;
  /// With a `BatchFollower` of its batches.
  [[nodiscard]] auto shard_with_follower(DatasetShard shard) const -> TorchShard;
  /// Datasets of which a checkpoint's position lies behind the last batch of an epoch that goes on.
  [[nodiscard]] auto unfinished_epochs() const -> std::set<std::string>;

  /// Warns of learning rates that a checkpoint has replaced by others.
  void compare_rates(std::vector<double> const& before, std::vector<double> const& restored);

  /// As `prepare_model` calls `make`.
  template <class F>
  [[nodiscard]] auto build(F& make) {
    detail::DefaultGeneratorLock lock;
    detail::UnlockingScope const unlocking{*unlocking_, lock};
    auto const before = detail::default_generator_state();
    auto built = [&] {  // with no GPU's seed, from which other workers draw
      detail::OwnDefaultGenerator::Pause const pause;
      auto const of_model = models_.count() == 0 ? seed() : detail::stream_seed(seed(), models_.count());
      device_.gpu() ? detail::seed_default_generator(of_model) : (void)torch::manual_seed(of_model);
      return raytrain::hold_module(make);
    }();
    detail::set_default_generator_state(before);
    return built;
  }

  template <class M>
  [[nodiscard]] auto to_local_model(M model) {
    auto held = detail::in_holder(std::move(model));
    auto& module = detail::module_to_prepare(held);
    device_.place(module);
    auto const number = models_.train_apart(module);
    return LocalModel<decltype(held)>{std::move(held), world_rank(), number};
  }

  detail::UnlockingCollective* unlocking_;  ///< What `collective()` is.
  detail::WorkerDevice device_;
  detail::WorkerGenerators generators_;
  std::shared_ptr<detail::WorkerStep> worker_step_ = std::make_shared<detail::WorkerStep>();
  mutable std::vector<std::weak_ptr<detail::BatchFollower const>> followers_;  ///< Of the shards that there are.
  std::shared_ptr<detail::StepTimer> step_timer_;
  detail::PreparedModels models_;
  std::shared_ptr<detail::DeviceCopies const> copies_;  ///< Of batches, to a GPU.
  detail::LossCheck loss_check_;
  bool reports_step_times_ = false;
  std::uint16_t optimizers_ = 0;
  detail::DataLoaders loaders_;
  std::vector<std::weak_ptr<std::vector<double> const>> rates_;  ///< Of the schedules that `restore` was given.
  std::weak_ptr<detail::ScalerState const> scaler_;              ///< Of the scaler that it was given.
  std::vector<Precision> told_of_;                               ///< Precisions without instructions.
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/torch_context-inl.hpp>
#endif
