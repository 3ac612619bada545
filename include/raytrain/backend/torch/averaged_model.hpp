// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/torch_module.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpointed.hpp>

namespace raytrain {

struct AveragedModelConfig {
  /// Unset: the mean of the weights at all updates (SWA). Else the share that the average keeps at an update, of which
  /// the weights are the rest (EMA): from 0 to below 1, mostly 0.99 to 0.9999.
  std::optional<double> decay{};
  /// Whether buffers of floating-point numbers, as a BatchNorm's statistics, are averaged, too; of others the newest
  /// are taken then. Without, averaged weights are evaluated with the buffers that the model has.
  bool use_buffers = false;

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;
};

/// An average of a model's weights over the training, which often generalises better than the last ones:
///
///     AveragedModel averaged{model, {.decay = 0.999}};
///     ...
///     optimizer.step();
///     averaged.update();
///     ...
///     auto const in_place = averaged.put_in_place();   // until the end of this block
///     evaluate(model);
///
/// Each rank averages for itself, what all ranks have alike; of a `LocalModel`, its own. `save(model, optimizer,
/// averaged)` stores it as averaged_model.safetensors, which Python reads as a state of the model, by strict=False
/// where it has buffers that are not averaged.
///
/// Source: PyTorch's AveragedModel; B. Polyak and A. Juditsky, "Acceleration of Stochastic Approximation by
///         Averaging", 1992; P. Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization",
///         2018 (SWA).
class AveragedModel {
 public:
  static constexpr auto file_name = "averaged_model.safetensors";

  /// Averages a model that is prepared. Parameters that are shared by several modules are averaged once.
  ///
  /// Errors: as `AveragedModelConfig::validate`; `backend` for a model without parameters, and for parameters and
  ///         buffers that a checkpoint cannot hold.
  /// Cost:   the memory of the parameters, once more; twice for those of 16 bits, whose averages are of 32.
  template <TorchModule M>
  explicit AveragedModel(M const& model, AveragedModelConfig config = {}) : config_{config} {
    hold(raytrain::module_of(model));
  }
  AveragedModel(AveragedModel const&) = delete;
  auto operator=(AveragedModel const&) -> AveragedModel& = delete;

  /// Takes the weights as they are now into the average; the first ones are the average. Behind each
  /// `optimizer.step()`, or with SWA behind some epochs.
  ///
  /// Errors: `invalid_call` while the average is in place.
  void update();

  /// How often, before a resume, too.
  [[nodiscard]] auto updates() const noexcept -> std::int64_t { return updates_; }

  /// While it lives, the model has the averaged weights.
  class InPlace {
   public:
    InPlace(InPlace const&) = delete;
    auto operator=(InPlace const&) -> InPlace& = delete;
    ~InPlace() { averaged_.take_back(); }

   private:
    friend class AveragedModel;
    explicit InPlace(AveragedModel& averaged) : averaged_{averaged} { averaged_.give(); }

    AveragedModel& averaged_;
  };

  /// Gives the model the averaged weights, until the result is gone: then it has those again with which it trains, bit
  /// by bit. Before the first update these are the same.
  ///
  /// Errors: `invalid_call` while the average is in place.
  /// Cost:   the memory of the parameters, once more, as long as the result lives.
  [[nodiscard]] auto put_in_place() -> InPlace;

  /// Writes averaged_model.safetensors, or a file of another name: the model's weights before the first update.
  ///
  /// Errors: `invalid_call` while the average is in place: the model's own file would hold it.
  void add_to(CheckpointDraft& draft, std::string const& file = file_name) const;

  /// Goes on from what `add_to` has written. Returns which decay it had there, where that is another one.
  ///
  /// Errors: those of `Checkpoint::read`; `backend` when it is of another model, with the names and shapes that differ;
  ///         `corrupt_checkpoint` for a file of something else; `invalid_call` while the average is in place.
  auto load_from(Checkpoint const& checkpoint, std::string const& file = file_name) -> std::string;

 private:
  void hold(torch::nn::Module const& module);
  void give();       // the averages to the model
  void take_back();  // to it, what `give` has kept
  void check_not_in_place(char const* attempted) const;
  [[nodiscard]] auto decay_text() const -> std::string;

  AveragedModelConfig config_;
  std::vector<detail::NamedTensor> averages_;  // by their names in the model
  std::vector<at::Tensor> own_;                // the model's, in the same order
  std::vector<at::Tensor> trained_;            // copies of these while the averages are in place
  std::int64_t updates_ = 0;
  bool is_in_place_ = false;
};

static_assert(Checkpointed<AveragedModel>);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/averaged_model-inl.hpp>
#endif
