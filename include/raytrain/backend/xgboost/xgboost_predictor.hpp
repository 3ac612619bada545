// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <utility>

#include <raytrain/backend/boosting/detail/early_stopping.hpp>
#include <raytrain/backend/boosting/detail/model_file.hpp>
#include <raytrain/backend/boosting/predictions.hpp>
#include <raytrain/backend/xgboost/booster.hpp>
#include <raytrain/backend/xgboost/dmatrix.hpp>
#include <raytrain/backend/xgboost/xgboost_context.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/whole_file.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>

namespace raytrain {

/// Computes what a trained model says of a dataset's rows.
///
/// Threads: every function from any thread; one prediction at a time, with as many threads as it is told to use.
class XGBoostPredictor {
 public:
  /// Errors: as `load` and `find_preprocessor`; `invalid_config` when the best rounds are asked for, and the model was
  ///         trained without early stopping or is a linear one.
  explicit XGBoostPredictor(Checkpoint const& checkpoint, PredictorOptions options = {})
      : XGBoostPredictor{std::move(options), [&](Booster& booster) { load(checkpoint, booster); }} {
    if (!options_.preprocessor) options_.preprocessor = find_preprocessor(checkpoint);
  }

  /// A model that XGBoost has stored as JSON or UBJSON.
  ///
  /// Errors: `not_found`, `io`; `backend` for a model that XGBoost cannot read, `invalid_data` for that of a newer one;
  ///         `invalid_config` when the best rounds are asked for, and it does not say which they are or is a linear
  ///         one.
  explicit XGBoostPredictor(std::filesystem::path const& model, PredictorOptions options = {})
      : XGBoostPredictor{std::move(options),
                         [&](Booster& booster) { booster.load(detail::read_model_file(model, "XGBoost")); }} {}

  /// Predicts each row from the columns that the options name as features, or from all: those of the rows as they were
  /// read, and then changed by the preprocessor of the training, where it had one. The order must be that of the
  /// training.
  ///
  /// Errors: as the preprocessor and as `DMatrix`; `invalid_data` for other features than the model has.
  [[nodiscard]] auto predict(Dataset const& data, DMatrixOptions options = {},
                             PredictionType type = PredictionType::value) const -> Predictions {
    if (options.threads == 0) options.threads = options_.threads;
    return predict(DMatrix{detail::prepared_by(options_.preprocessor, data), std::move(options)}, type);
  }

  /// Errors: `invalid_data` for other features than the model has.
  [[nodiscard]] auto predict(DMatrix const& data, PredictionType type = PredictionType::value) const -> Predictions {
    std::lock_guard const lock{mutex_};
    return booster_.predict(data, type, rounds_);
  }

  /// `kind`: "gain", "weight", "cover", "total_gain" or "total_cover".
  [[nodiscard]] auto feature_importance(std::string const& kind) const {
    std::lock_guard const lock{mutex_};
    return booster_.feature_importance(kind);
  }

  /// Stores the model, all rounds and which is the best one, where XGBoost reads it, in any language; ".json" decides
  /// for JSON, anything else for UBJSON. Whatever happens on the way, the file is the old or the new one.
  ///
  /// Errors: `io`.
  void save_model(std::filesystem::path const& path) const {
    std::lock_guard const lock{mutex_};
    replace_whole_file(path, booster_.to_bytes(path.extension() == ".json" ? ModelFormat::json : ModelFormat::ubj));
  }

 private:
  template <class Load>
  XGBoostPredictor(PredictorOptions options, Load const& load) : options_{std::move(options)} {
    if (options_.threads > 0) booster_.set_parameter("nthread", std::to_string(options_.threads));
    load(booster_);
    rounds_ = detail::predicted_rounds(booster_, options_.rounds);
    if (options_.rounds == PredictedRounds::best && booster_.kind() == "gblinear") {
      throw Error{Errc::invalid_config, "PredictorOptions::rounds",
                  "is best, and the model is a linear one ('gblinear'), which has the sum of its rounds only",
                  "predict by PredictedRounds::all"};
    }
  }

  PredictorOptions options_;
  mutable std::mutex mutex_;
  Booster booster_;
  int rounds_ = 0;
};

}  // namespace raytrain
