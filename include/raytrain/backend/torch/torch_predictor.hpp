// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <raytrain/backend/torch/load_model.hpp>
#include <raytrain/backend/torch/torch_module.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>

namespace raytrain {

/// How a network predicts.
struct TorchPredictorOptions {
  std::int64_t batch_size = 1024;         ///< Rows that the model gets at once, from 1 on: fewer take less memory.
  std::optional<torch::Device> device{};  ///< Where the model computes, to which it is moved; none: where it is.
  /// Changes the rows of a dataset before; none: that of the checkpoint, where the training had one.
  AnyPreprocessor preprocessor{};
};

namespace detail {
/// Calls `forward` for each batch of rows, and puts what it returns together.
auto predict_rows(at::Tensor const& rows, TorchPredictorOptions const& options,
                  std::function<at::Tensor(at::Tensor const&)> const& forward) -> at::Tensor;

/// Predicts a column of the rows, as the preprocessor makes it.
auto predict_column(Dataset const& rows, std::string const& column, TorchPredictorOptions const& options,
                    std::function<at::Tensor(at::Tensor const&)> const& forward) -> at::Tensor;

/// Changes nothing that is there. Returns where the module is then.
///
/// Errors: `invalid_config` for a device that is missing, or whose memory is full.
auto move_to(torch::nn::Module& module, std::optional<torch::Device> device) -> torch::Device;

/// Errors: `invalid_config`.
void check_options(TorchPredictorOptions const& options);
}  // namespace detail

/// Computes what a trained model says of rows: in eval mode, without gradients.
///
///     TorchPredictor<Net> const predictor{*result.checkpoint()};
///     auto const logits = predictor.predict(images);
///
/// Threads: every function from any thread, at the same time, where the model's `forward` writes to nothing that is the
///          model's, as those of LibTorch do not in eval mode. The operations of each calling thread use as many
///          threads as `torch::set_num_threads` says.
template <TorchModule M>
class TorchPredictor {
 public:
  /// Of a model without arguments of its constructor.
  ///
  /// Errors: as `load_model` and `find_preprocessor`, and `invalid_config`.
  explicit TorchPredictor(Checkpoint const& checkpoint, TorchPredictorOptions options = {}) requires TorchModuleOf<M>
      : TorchPredictor{Held{}, load_model<M>(checkpoint), std::move(options)} {
    if (!options_.preprocessor) options_.preprocessor = find_preprocessor(checkpoint);
  }

  /// Of a model with arguments: `TorchPredictor predictor{checkpoint, [] { return Net{784, 10}; }}`, as `load_model`
  /// takes it, which may be TorchScript.
  ///
  /// Errors: as above.
  template <TorchModuleFactory F>
  TorchPredictor(Checkpoint const& checkpoint, F make, TorchPredictorOptions options = {})
      : TorchPredictor{Held{}, load_model(checkpoint, std::move(make)), std::move(options)} {
    if (!options_.preprocessor) options_.preprocessor = find_preprocessor(checkpoint);
  }

  /// A model that Python or `save_safetensors` has stored.
  ///
  /// Errors: as `load_model` of a file, and `invalid_config`.
  explicit TorchPredictor(std::filesystem::path const& model,
                          TorchPredictorOptions options = {}) requires TorchModuleOf<M>
      : TorchPredictor{Held{}, load_model<M>(model), std::move(options)} {}

  /// Any other, as `load_model` returns it: `TorchPredictor predictor{load_model<Net>(checkpoint, 784, 10)}`. It is in
  /// eval mode from now on, and nobody is to train it while this predicts. The preprocessor of its training, where it
  /// had one, is to be given by the options.
  explicit TorchPredictor(M model, TorchPredictorOptions options = {})
      : TorchPredictor{Held{}, raytrain::hold_module([&] { return std::move(model); }), std::move(options)} {}

  /// Predicts each row of {n, ...}, which no preprocessor changes, in their order, n from 1 on: {n, ...}, of the type
  /// and the shape of a row that the model gives, on the device of the rows, which may be another one than the model's.
  ///
  /// Errors: `invalid_data` without rows; `backend` for rows that the model does not take, and for a model that gives
  ///         another number of rows than it gets.
  /// Cost:   the memory of what it returns; with more rows than a batch, that of a batch beside it.
  [[nodiscard]] auto predict(at::Tensor const& rows) const -> at::Tensor {
    return detail::predict_rows(rows, options_, forward());
  }

  /// Predicts each row of a dataset as it was read, from one column of what the preprocessor of the training makes of
  /// it, where it had one: {rows, ...}, on the CPU. The model gets a copy of each batch: it may work in place.
  ///
  /// Errors: as the preprocessor; `not_found` for a column that is not there, listing those that are; `invalid_data`
  ///         for one of text, and one of a type of which LibTorch has no tensors; as above.
  [[nodiscard]] auto predict(Dataset const& rows, std::string const& column = "features") const -> at::Tensor {
    return detail::predict_column(rows, column, options_, forward());
  }

 private:
  struct Held {};
  using Holder = decltype(raytrain::hold_module(std::declval<M (&)()>()));

  TorchPredictor(Held /*tag*/, Holder model, TorchPredictorOptions options)
      : model_{std::move(model)}, options_{std::move(options)} {
    detail::check_options(options_);
    raytrain::module_of(model_).eval();
    options_.device = detail::move_to(raytrain::module_of(model_), options_.device);
  }

  [[nodiscard]] auto forward() const {
    return [this](at::Tensor const& batch) -> at::Tensor {
      auto model = model_;  // forward is no function of a const one
      return model->forward(batch);
    };
  }

  Holder model_;
  TorchPredictorOptions options_;
};

namespace detail {
/// TorchScript predicts as a `ScriptModule`.
template <class M>
using Predicting = std::conditional_t<std::same_as<M, torch::jit::Module>, ScriptModule, M>;
}  // namespace detail

template <TorchModuleFactory F>
TorchPredictor(Checkpoint const&, F) -> TorchPredictor<detail::Predicting<std::invoke_result_t<F&>>>;
template <TorchModuleFactory F>
TorchPredictor(Checkpoint const&, F, TorchPredictorOptions)
    -> TorchPredictor<detail::Predicting<std::invoke_result_t<F&>>>;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/torch_predictor-inl.hpp>
#endif
