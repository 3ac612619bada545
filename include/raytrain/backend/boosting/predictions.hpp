// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <raytrain/preprocess/any_preprocessor.hpp>

namespace raytrain {

/// What a model of trees computes for each row.
enum class PredictionType : std::uint8_t {
  value = 0,          ///< In the objective's terms: a probability, a class, a number.
  margin = 1,         ///< Before the objective's last step.
  contributions = 2,  ///< Each feature's share of the margin (SHAP), and the bias last.
  interactions = 4,   ///< Each pair of features' share; XGBoost alone has it.
  leaf = 6,           ///< Number of the leaf in each tree.
};

/// Which rounds of a model predict.
enum class PredictedRounds : std::uint8_t {
  all,
  best,  ///< Up to the one that early stopping has found best.
};

/// How a model predicts.
struct PredictorOptions {
  int threads = 0;  ///< 0: as many as the library likes.
  PredictedRounds rounds = PredictedRounds::all;
  /// Changes the rows of a dataset before; none: that of the checkpoint, where the training had one. `Chain{}` leaves
  /// rows as they are.
  AnyPreprocessor preprocessor{};
};

/// Numbers by row.
struct Predictions {
  std::vector<float> values;
  std::vector<std::size_t> shape;  ///< Rows, then what belongs to one of them.
};

/// A metric of a model on a dataset.
struct Evaluation {
  std::string name;  ///< "valid-logloss".
  double value = 0;
};

}  // namespace raytrain
