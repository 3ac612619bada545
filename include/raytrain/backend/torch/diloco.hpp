// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/local_model.hpp>
#include <raytrain/backend/torch/torch_module.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpointed.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/train/train_context.hpp>

namespace raytrain {

struct DiLoCoConfig {
  int every = 50;         ///< Steps of each worker's own optimizer in a round; at least 1.
  double lr = 0.7;        ///< Of the outer step; above 0.
  double momentum = 0.9;  ///< Nesterov's, of the outer step; from 0 to below 1.

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;
};

/// Trains a model with little communication: in rounds of so many steps each worker trains by itself, with an inner
/// optimizer of its own. Then an outer step, SGD with Nesterov momentum, changes the global parameters by the mean of
/// what the workers have changed in theirs, and all workers go on from these.
///
///     auto model = ctx.prepare_local_model([] { return Net{}; });
///     torch::optim::AdamW inner{model->parameters(), 1e-3};
///     DiLoCo outer{ctx, model, {.every = 50}};
///     TrainingState state{model, inner, outer};
///     ...
///     inner.step();
///     outer.step();
///
/// Buffers of floating-point numbers become their mean behind an outer step, and others rank 0's; the inner optimizers
/// keep their states. Behind an outer step the model has the same bits on all workers.
///
/// `save(state)` stores it as diloco.safetensors. As many workers go on to the bits of an undisturbed run, also from
/// within a round. Another number of workers begins the round anew, from the global parameters, and a warning says so.
///
/// Threads: the worker's, until the training function ends.
/// Source:  A. Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023
///          (arXiv 2311.08105).
class DiLoCo {
 public:
  static constexpr auto file_name = "diloco.safetensors";

  /// Rank 0's parameters as they are now are the global ones, with which all workers begin. Every rank makes it. The
  /// context must live as long.
  ///
  /// Errors: as `DiLoCoConfig::validate`; `backend` for parameters that a checkpoint cannot hold, or that are neither
  ///         floating-point numbers nor frozen; `rank_mismatch` on all ranks when one has other settings or parameters.
  /// Cost:   the memory of the parameters, twice, and while an outer step is made, twice more; of 16 bits as of 32; a
  ///         broadcast of them.
  template <TorchModule M>
  DiLoCo(TrainContext& ctx, LocalModel<M> const& model, DiLoCoConfig config = {})
      : DiLoCo{ctx.collective(), raytrain::module_of(model), model.number(), config} {}

  DiLoCo(DiLoCo const&) = delete;
  auto operator=(DiLoCo const&) -> DiLoCo& = delete;

  /// Counts a step of the inner optimizer, behind which it is called. In a round's last one all workers make the outer
  /// step together, and it is true.
  ///
  /// Errors: `rank_mismatch` on all ranks when they are not in the same round of the same model, or one calls something
  ///         else.
  /// Cost:   in a round's last step an all_gather, by which rounds are compared, an all_reduce of the parameters and
  ///         one of the buffers for each of their types, and a broadcast of buffers of whole numbers.
  auto step() -> bool;

  /// Outer steps, those before a resume included.
  [[nodiscard]] auto rounds() const noexcept -> std::int64_t { return rounds_; }
  /// Inner steps of the round at hand.
  [[nodiscard]] auto steps() const noexcept -> int { return steps_; }

  /// Begins the round anew, with rank 0's parameters as they are now as the global ones, with which all workers begin:
  /// for a model that was filled since this was made. Every rank calls it. `TorchContext::restore` does for the
  /// checkpoint of another run.
  ///
  /// Errors: `rank_mismatch` on all ranks when one begins that of another model.
  void begin_from_model();

  /// Writes diloco.safetensors, or a file of another name: the global parameters, their momentum, and how far it is.
  void add_to(CheckpointDraft& draft, std::string const& file = file_name) const;

  /// Goes on from what `add_to` has written. Returns what is another setting here, and whether a round begins anew. In
  /// a round of fewer steps than were done, the next `step` is its last.
  ///
  /// Errors: those of `Checkpoint::read`; `backend` when it is of another model, with the names and shapes that differ;
  ///         `corrupt_checkpoint` for a file of something else.
  auto load_from(Checkpoint const& checkpoint, std::string const& file = file_name) -> std::string;

 private:
  DiLoCo(Collective& collective, torch::nn::Module const& module, int number, DiLoCoConfig config);

  struct Parameter {
    std::string name;
    at::Tensor own;       ///< The model's.
    at::Tensor global;    ///< From which all workers have begun the round.
    at::Tensor momentum;  ///< Of the outer step.
  };

  void make_outer_step();
  /// Gives all workers rank 0's global parameters.
  void share_global();
  void take_global() const;
  /// By their names in a file.
  [[nodiscard]] auto tensors() const -> std::vector<detail::NamedTensor>;
  [[nodiscard]] auto settings() const -> std::string;

  Collective& collective_;
  int number_;
  DiLoCoConfig config_;
  std::vector<Parameter> parameters_;
  std::vector<at::Tensor> buffers_;
  std::int64_t rounds_ = 0;
  int steps_ = 0;
};

static_assert(Checkpointed<DiLoCo>);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/diloco-inl.hpp>
#endif
