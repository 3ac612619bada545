// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <raytrain/backend/boosting/detail/model_file.hpp>
#include <raytrain/backend/xgboost/booster.hpp>
#include <raytrain/backend/xgboost/dmatrix.hpp>
#include <raytrain/backend/xgboost/xgboost_context.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// Computes what a trained model says of a dataset's rows.
///
/// Threads: every function from any thread; one prediction at a time, with as many threads as it is told to use.
class XGBoostPredictor {
 public:
  /// Errors: as `load`.
  explicit XGBoostPredictor(Checkpoint const& checkpoint, int threads = 0) : XGBoostPredictor{threads} {
    load(checkpoint, booster_);
  }

  /// A model that XGBoost has stored as JSON or UBJSON.
  ///
  /// Errors: `not_found`, `io`; `backend` for a model that XGBoost cannot read, `invalid_data` for that of a newer one.
  explicit XGBoostPredictor(std::filesystem::path const& model, int threads = 0) : XGBoostPredictor{threads} {
    booster_.load(detail::read_model_file(model, "XGBoost"));
  }

  /// Of all columns, or of those that the options name as features; in their order, as in training.
  ///
  /// Errors: as `DMatrix`; `invalid_data` for other features than the model has.
  [[nodiscard]] auto predict(Dataset const& data, DMatrixOptions options = {},
                             PredictionType type = PredictionType::value) const -> Predictions {
    if (options.threads == 0) options.threads = threads_;
    return predict(DMatrix{data, std::move(options)}, type);
  }

  /// Errors: `invalid_data` for other features than the model has.
  [[nodiscard]] auto predict(DMatrix const& data, PredictionType type = PredictionType::value) const -> Predictions {
    std::lock_guard const lock{mutex_};
    return booster_.predict(data, type);
  }

  /// `kind`: "gain", "weight", "cover", "total_gain" or "total_cover".
  [[nodiscard]] auto feature_importance(std::string const& kind) const {
    std::lock_guard const lock{mutex_};
    return booster_.feature_importance(kind);
  }

  /// Stores the model where XGBoost reads it, in any language; ".json" decides for JSON, anything else for UBJSON.
  ///
  /// Errors: `io`.
  void save_model(std::filesystem::path const& path) const {
    std::lock_guard const lock{mutex_};
    detail::write_model_file(path,
                             booster_.to_bytes(path.extension() == ".json" ? ModelFormat::json : ModelFormat::ubj));
  }

 private:
  explicit XGBoostPredictor(int threads) : threads_{threads} {
    if (threads > 0) booster_.set_parameter("nthread", std::to_string(threads));
  }

  int threads_;
  mutable std::mutex mutex_;
  Booster booster_;
};

}  // namespace raytrain
