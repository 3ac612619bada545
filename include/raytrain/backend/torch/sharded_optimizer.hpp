// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/backend/torch/detail/gradient_averager.hpp>
#include <raytrain/backend/torch/detail/optimizer_slice.hpp>
#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/backend/torch/detail/stored_optimizer.hpp>
#include <raytrain/collective/collective.hpp>

namespace raytrain {

/// An optimizer of which each worker runs a part: it updates a slice of the parameters, of all of them 1 / world size,
/// and gets the others' slices. What `TorchContext::prepare_optimizer` makes.
///
/// The parameters have the bits that they would have if each worker ran the whole optimizer, of whose state and work
/// each has 1 / world size. For the program it is the optimizer of all parameters: options that it changes in
/// `param_groups()`, on every rank alike, count from the next step on, also by a scheduler. `state()` is empty;
/// `slice()` has what this worker keeps. A parameter without a gradient is passed over. Gradients are averages of all
/// workers, as ever; what a program changes in them, as by clipping, it changes on every rank alike, since each slice
/// is updated by its own worker's.
///
/// `save(model, optimizer)` writes what it writes of an optimizer that is not sharded, by the same names: each may go
/// on where the other one was, with any number of workers. Rank 0 writes it, and the model; with
/// `CheckpointConfig::memory_copies` no other rank keeps a copy of these.
///
/// Parameters lie in one array from then on; tensors of the program's own that shared their memory do not follow.
///
/// Threads: the worker's, until the training function ends.
/// Errors:  `step()` is a group operation, and throws what the collective throws: `rank_mismatch` also where learning
///          rates differ between ranks, or which parameters have a gradient; `backend` for parameters that have another
///          shape, type or device, and for groups that list others, than when it was prepared; `invalid_call`, also in
///          a world of one, for a model that has become a local one, whose gradients are no averages.
/// Source:  ZeRO stage 1 (S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
///          Models", SC 2020).
class ShardedOptimizer : public torch::optim::Optimizer {
 public:
  using Groups = detail::OptimizerSlice::Groups;

  struct Setup {
    torch::nn::Module const& module;
    detail::GradientAverager const* averager = nullptr;  ///< Of the module; null in a world of one.
    Collective& collective;
    Collective& arrays;                         ///< Of the memory where parameters are.
    detail::DeviceArrays* on_device = nullptr;  ///< The same, if that is no CPU memory.
    torch::Device device;                       ///< Where they are.
    std::uint16_t number = 0;  ///< From 1, in the order in which the worker has prepared its optimizers.
    Groups groups;
    std::unique_ptr<torch::optim::OptimizerOptions> defaults;
    detail::OptimizerSlice::Make make;
    std::function<bool()> is_local;              ///< Whether each worker trains the module by itself now.
    std::shared_ptr<detail::StepTimer> timer{};  ///< Of its steps; may be null.
  };

  explicit ShardedOptimizer(Setup setup);

  /// With `closure`, returns its loss, which is this worker's own.
  auto step(LossClosure closure = nullptr) -> at::Tensor override;

  /// Refused, since no worker has all of the state: `save(model, optimizer)` gathers it.
  ///
  /// Errors: `invalid_call`.
  void save(torch::serialize::OutputArchive& archive) const override;

  /// Takes this worker's part of the state of a whole optimizer.
  ///
  /// Errors: as `set_state`; `c10::Error` for an archive of something else.
  void load(torch::serialize::InputArchive& archive) override;

  /// The optimizer of this worker's elements, for who wants to look at its state.
  [[nodiscard]] auto slice() const noexcept -> torch::optim::Optimizer const& { return slice_->optimizer(); }

  [[nodiscard]] auto is_on_rank_0() const noexcept -> bool;

  /// What the whole optimizer would store, on rank 0. A group operation.
  ///
  /// Cost: as `detail::gather_pieces`.
  [[nodiscard]] auto gather_state() const -> std::optional<detail::OptimizerState>;

  /// Takes this worker's part of it. `attempted` begins the message of an error.
  ///
  /// Errors: `backend` for a state of other groups or of parameters of other shapes.
  void set_state(detail::OptimizerState const& state, std::string_view attempted);

 private:
  struct Frozen {
    std::string name;
    at::Tensor parameter;
  };

  /// Those that the groups list, in the order of the module.
  [[nodiscard]] auto listed_parameters(Setup const& setup) -> std::vector<detail::FlatParameters::Parameter>;
  /// Groups have the options that the optimizer itself gives them: LibTorch 2.15 gives the defaults to those whose
  /// options are of a type that it does not know.
  void take_options_as_made(Groups const& given);
  [[nodiscard]] auto listed() const -> std::vector<c10::TensorImpl const*>;

  /// A group operation. Errors: `rank_mismatch`, with what rank 0 and another one have.
  void check_same_on_all_ranks(std::vector<detail::FlatParameters::Parameter> const& parameters,
                               Collective& collective) const;

  void check_unchanged() const;
  void check_groups(detail::OptimizerState const& state, std::string_view attempted) const;

  Collective* collective_;
  detail::DeviceArrays* on_device_;
  std::vector<c10::TensorImpl const*> listed_;  ///< When it was made.
  std::vector<Frozen> frozen_;                  ///< Then without a gradient to come.
  std::unique_ptr<detail::OptimizerSlice> slice_;
  detail::OptimizerSlice::Make make_;
  std::function<bool()> is_local_;
  std::shared_ptr<detail::StepTimer> timer_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/sharded_optimizer-inl.hpp>
#endif
