// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <mutex>
#include <string_view>
#include <utility>

#include <raytrain/backend/boosting/detail/early_stopping.hpp>
#include <raytrain/backend/boosting/detail/model_file.hpp>
#include <raytrain/backend/boosting/predictions.hpp>
#include <raytrain/backend/lightgbm/lightgbm_booster.hpp>
#include <raytrain/backend/lightgbm/lightgbm_dataset.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/whole_file.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>

namespace raytrain {

/// Computes what a trained model says of a dataset's rows.
///
/// Threads: every function from any thread; one prediction at a time, with as many threads as it is told to use. That
///          number is LightGBM's for the whole process: do not predict with another one while a model trains in it.
class LightGBMPredictor {
 public:
  /// Errors: as `Checkpoint::read` and `find_preprocessor`; `backend` for a model that LightGBM cannot read;
  ///         `invalid_config` when the best rounds are asked for, and the model was trained without early stopping.
  explicit LightGBMPredictor(Checkpoint const& checkpoint, PredictorOptions options = {})
      : LightGBMPredictor{LightGBMBooster{checkpoint}, std::move(options)} {
    if (!preprocessor_) preprocessor_ = find_preprocessor(checkpoint);
  }

  /// A model that LightGBM has stored as text.
  ///
  /// Errors: `not_found`, `io`; `backend` for a model that LightGBM cannot read; `invalid_config` when the best rounds
  ///         are asked for, since a text does not say which they are.
  explicit LightGBMPredictor(std::filesystem::path const& model, PredictorOptions options = {})
      : LightGBMPredictor{LightGBMBooster{detail::read_model_file(model, "LightGBM")}, std::move(options)} {}

  /// Predicts each row from the columns that the options name as features, or from all that they do not name: those of
  /// the rows as they were read, and then changed by the preprocessor of the training, where it had one. The order must
  /// be that of the training.
  ///
  /// Errors: as the preprocessor and as `LightGBMBooster::predict`; `invalid_call` for interactions, which LightGBM
  ///         does not compute.
  [[nodiscard]] auto predict(Dataset const& data, LightGBMDatasetOptions const& options = {},
                             PredictionType type = PredictionType::value) const -> Predictions {
    auto how = predict_by_;
    how.type = type;
    auto const rows = detail::prepared_by(preprocessor_, data);
    std::lock_guard const lock{mutex_};
    return booster_.predict(rows, options, how);
  }

  /// `kind`: "split" or "gain".
  ///
  /// Errors: `invalid_call` for another kind.
  [[nodiscard]] auto feature_importance(std::string_view kind) const {
    std::lock_guard const lock{mutex_};
    return booster_.feature_importance(kind);
  }

  /// Stores the rounds that predict as LightGBM's text, which LightGBM reads in any language. Whatever happens on the
  /// way, the file is the old or the new one.
  ///
  /// Errors: `io`.
  void save_model(std::filesystem::path const& path) const {
    std::lock_guard const lock{mutex_};
    replace_whole_file(path, bytes_of(booster_.to_text(predict_by_.rounds)));
  }

 private:
  LightGBMPredictor(LightGBMBooster booster, PredictorOptions options)
      : booster_{std::move(booster)},
        predict_by_{.threads = options.threads, .rounds = detail::predicted_rounds(booster_, options.rounds)},
        preprocessor_{std::move(options.preprocessor)} {}

  mutable std::mutex mutex_;
  LightGBMBooster booster_;
  LightGBMPrediction predict_by_;
  AnyPreprocessor preprocessor_;
};

}  // namespace raytrain
