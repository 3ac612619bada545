// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/backend/boosting/predictions.hpp>
#include <raytrain/backend/lightgbm/detail/lightgbm_library.hpp>
#include <raytrain/backend/lightgbm/lightgbm_dataset.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// Name of LightGBM's model in a checkpoint.
inline constexpr std::string_view lightgbm_file_name = "booster.txt";

/// What LightGBM predicts, with which rounds of a model, and on how many threads.
struct LightGBMPrediction {
  PredictionType type = PredictionType::value;
  int threads = 0;  ///< 0: as many as LightGBM likes.
  int rounds = 0;   ///< The first ones; 0: all.
};

/// A LightGBM model.
///
/// Threads: one at a time; where workers train together it is made and used on the worker's own.
/// Errors:  every function: `backend` with LightGBM's text, and what a collective throws where workers train together.
class LightGBMBooster {
 public:
  using Datasets = std::vector<std::pair<std::string, LightGBMDataset const*>>;

  /// An empty model that trains on "train", and is evaluated on it and on `others`, which all outlive it.
  ///
  /// Errors: `invalid_call` for a dataset without labels, which LightGBM would take for zeros.
  LightGBMBooster(LightGBMDataset const& train, std::map<std::string, std::string> const& params,
                  Datasets const& others = {})
      : datasets_{{"train", train.total_weight()}} {
    check_labels("train", train);
    for (auto const& [name, dataset] : others) check_labels(name, *dataset);
    detail::LightGBMLog::keep();
    void* made = nullptr;
    detail::lightgbm_call(
        detail::lightgbm::LGBM_BoosterCreate(train.handle(), detail::lightgbm_parameters(params).c_str(), &made),
        "LGBM_BoosterCreate");
    handle_.reset(made);
    for (auto const& [name, dataset] : others) {
      detail::lightgbm_call(detail::lightgbm::LGBM_BoosterAddValidData(handle(), dataset->handle()),
                            "LGBM_BoosterAddValidData", "make it with the dataset to train on as its reference");
      datasets_.emplace_back(name, dataset->total_weight());
    }
    int count = 0;
    detail::lightgbm_call(detail::lightgbm::LGBM_BoosterGetEvalCounts(handle(), &count), "LGBM_BoosterGetEvalCounts");
    metrics_ = names(detail::lightgbm::LGBM_BoosterGetEvalNames, count, "LGBM_BoosterGetEvalNames");
  }

  /// A model that was stored, for predictions.
  explicit LightGBMBooster(BytesView model) {
    detail::LightGBMLog::keep();
    std::string const text{text_of(model)};
    int iterations = 0;
    void* made = nullptr;
    detail::lightgbm_call(detail::lightgbm::LGBM_BoosterLoadModelFromString(text.c_str(), &iterations, &made),
                          "LGBM_BoosterLoadModelFromString");
    handle_.reset(made);
  }

  /// The model of a checkpoint, with its attributes.
  ///
  /// Errors: as `Checkpoint::read`.
  explicit LightGBMBooster(Checkpoint const& checkpoint) : LightGBMBooster{checkpoint.read(lightgbm_file_name)} {
    attributes_ = checkpoint.metadata();
  }

  [[nodiscard]] auto handle() const noexcept -> void* { return handle_.get(); }

  /// Rounds that the model has.
  [[nodiscard]] auto rounds() const -> int {
    int rounds = 0;
    detail::lightgbm_call(detail::lightgbm::LGBM_BoosterGetCurrentIteration(handle(), &rounds),
                          "LGBM_BoosterGetCurrentIteration");
    return rounds;
  }

  /// Numbers that it predicts for a row: the number of classes, or 1.
  [[nodiscard]] auto classes() const -> int {
    int classes = 0;
    detail::lightgbm_call(detail::lightgbm::LGBM_BoosterGetNumClasses(handle(), &classes), "LGBM_BoosterGetNumClasses");
    return classes;
  }

  /// In the order of the features; with '_' for a space.
  [[nodiscard]] auto feature_names() const -> std::vector<std::string> {
    return names(detail::lightgbm::LGBM_BoosterGetFeatureNames, features(), "LGBM_BoosterGetFeatureNames");
  }

  /// Puts the rounds of a model that was stored before those of this one. Its margins are to be the initial scores of
  /// the datasets, made before.
  void begin_with(LightGBMBooster const& stored) {
    detail::lightgbm_call(detail::lightgbm::LGBM_BoosterMerge(handle(), stored.handle()), "LGBM_BoosterMerge");
  }

  /// One more round by the objective. False when no split makes it better any more: then there is none.
  auto update() -> bool {
    int is_finished = 0;
    detail::lightgbm_call(detail::lightgbm::LGBM_BoosterUpdateOneIter(handle(), &is_finished),
                          "LGBM_BoosterUpdateOneIter");
    return is_finished == 0;
  }

  /// Each metric on each dataset, by the dataset's name: on this worker's rows, wherever the others' are.
  [[nodiscard]] auto evaluate() const -> std::vector<Evaluation> {
    std::vector<Evaluation> evaluations;
    std::vector<double> values(metrics_.size());
    if (metrics_.empty()) return evaluations;
    for (std::size_t i = 0; i < datasets_.size(); ++i) {
      int count = 0;
      detail::lightgbm_call(detail::lightgbm::LGBM_BoosterGetEval(handle(), static_cast<int>(i), &count, values.data()),
                            "LGBM_BoosterGetEval");
      for (std::size_t j = 0; j < metrics_.size(); ++j) {
        evaluations.push_back({datasets_[i].first + '-' + metrics_[j], values[j]});
      }
    }
    return evaluations;
  }

  /// The total weight of the dataset of each of `evaluate`'s values.
  [[nodiscard]] auto evaluation_weights() const -> std::vector<double> {
    std::vector<double> weights;
    for (auto const& [name, weight] : datasets_) weights.insert(weights.end(), metrics_.size(), weight);
    return weights;
  }

  /// Predicts each row of a dataset, whose features must be those of the training, in their order.
  ///
  /// Errors: as `LightGBMDataset`; `backend` for another number of features than the model has; `invalid_data` for
  ///         features of other names than its own.
  [[nodiscard]] auto predict(Dataset const& data, LightGBMDatasetOptions const& options = {},
                             LightGBMPrediction how = {}) const -> Predictions {
    auto const rows = data.rows();
    auto const values = predict_exactly(data, options, how);
    Predictions predictions{.values = {values.begin(), values.end()}, .shape = {rows}};
    auto const each = values.size() / rows;
    auto const width = static_cast<std::size_t>(features()) + 1;
    if (how.type == PredictionType::contributions) {
      if (each > width) predictions.shape.push_back(each / width);
      predictions.shape.push_back(width);
    } else if (how.type == PredictionType::leaf || each > 1) {
      predictions.shape.push_back(each);
    }
    return predictions;
  }

  /// The margins of all rows for the first class, then for the next one, for `LightGBMDataset::set_initial_scores`.
  [[nodiscard]] auto margins(Dataset const& data, LightGBMDatasetOptions const& options, int threads = 0) const
      -> std::vector<double> {
    return by_class(predict_exactly(data, options, {.type = PredictionType::margin, .threads = threads}), data.rows());
  }

  /// The same of blocks, which it goes through.
  [[nodiscard]] auto margins(detail::LightGBMBlocks& blocks, int threads = 0) const -> std::vector<double> {
    check_names(detail::lightgbm_names(blocks.names()));
    std::vector<double> by_row;
    std::size_t rows = 0;
    blocks.rewind();
    while (blocks.next()) {
      auto const width = static_cast<std::int32_t>(blocks.names().size());
      auto const some = predict_values(
          {blocks.values().data(), detail::lightgbm::float64, static_cast<std::int32_t>(blocks.rows()), width},
          {.type = PredictionType::margin, .threads = threads});
      by_row.insert(by_row.end(), some.begin(), some.end());
      rows += blocks.rows();
    }
    return by_class(std::move(by_row), rows);
  }

  /// The model as LightGBM's text, which has its objective and parameters. `rounds`: the first ones; 0: all.
  [[nodiscard]] auto to_text(int rounds = 0) const -> std::string {
    std::int64_t size = 0;
    auto const write = [&](std::string& text) {
      detail::lightgbm_call(detail::lightgbm::LGBM_BoosterSaveModelToString(
                                handle(), 0, rounds, 0, static_cast<std::int64_t>(text.size()), &size, text.data()),
                            "LGBM_BoosterSaveModelToString");
    };
    std::string text;
    write(text);
    text.resize(static_cast<std::size_t>(size));
    write(text);
    text.resize(text.find('\0'));
    return text;
  }

  /// A text that goes with the model into a checkpoint; empty when there is none of that name.
  [[nodiscard]] auto attribute(std::string const& name) const -> std::string {
    auto const found = attributes_.find(name);
    return found == attributes_.end() ? "" : found->second;
  }
  void set_attribute(std::string const& name, std::string const& value) { attributes_[name] = value; }
  [[nodiscard]] auto attributes() const noexcept -> std::map<std::string, std::string> const& { return attributes_; }

  /// How much each feature matters, of those that are in a tree. `kind`: "split" or "gain".
  ///
  /// Errors: `invalid_call` for another kind.
  [[nodiscard]] auto feature_importance(std::string_view kind) const -> std::map<std::string, double> {
    if (kind != "split" && kind != "gain") {
      throw Error{Errc::invalid_call, "LightGBMBooster::feature_importance", fmt::format("there is no kind '{}'", kind),
                  "ask for \"split\" or \"gain\""};
    }
    auto const features = feature_names();
    std::vector<double> scores(features.size());
    detail::lightgbm_call(
        detail::lightgbm::LGBM_BoosterFeatureImportance(handle(), 0, kind == "split" ? 0 : 1, scores.data()),
        "LGBM_BoosterFeatureImportance");
    std::map<std::string, double> importance;
    for (std::size_t i = 0; i < features.size(); ++i) {
      if (scores[i] != 0) importance[features[i]] = scores[i];
    }
    return importance;
  }

 private:
  struct Free {
    void operator()(void* handle) const noexcept { detail::lightgbm::LGBM_BoosterFree(handle); }
  };
  using Names = int (*)(void*, int, int*, std::size_t, std::size_t*, char**);

  static void check_labels(std::string const& name, LightGBMDataset const& dataset) {
    if (!dataset.labels().empty()) return;
    throw Error{Errc::invalid_call, "LightGBMBooster", fmt::format("the dataset '{}' has no labels", name),
                "name its column by LightGBMDatasetOptions::label"};
  }

  [[nodiscard]] auto features() const -> int {
    int count = 0;
    detail::lightgbm_call(detail::lightgbm::LGBM_BoosterGetNumFeature(handle(), &count), "LGBM_BoosterGetNumFeature");
    return count;
  }

  [[nodiscard]] auto names(Names get, int count, std::string_view function) const -> std::vector<std::string> {
    std::size_t size = 0;
    int found = 0;
    detail::lightgbm_call(get(handle(), 0, &found, 0, &size, nullptr), function);
    std::vector<std::string> names(static_cast<std::size_t>(count), std::string(size, '\0'));
    std::vector<char*> pointers;
    for (auto& name : names) pointers.push_back(name.data());
    detail::lightgbm_call(get(handle(), count, &found, size, &size, pointers.data()), function);
    for (auto& name : names) name.resize(std::min(name.find('\0'), name.size()));
    return names;
  }

  static auto type_of(PredictionType type) -> int {
    switch (type) {
      case PredictionType::value: return detail::lightgbm::predict_value;
      case PredictionType::margin: return detail::lightgbm::predict_margin;
      case PredictionType::contributions: return detail::lightgbm::predict_contributions;
      case PredictionType::leaf: return detail::lightgbm::predict_leaf;
      case PredictionType::interactions: break;
    }
    throw Error{Errc::invalid_call, "LightGBMBooster::predict", "LightGBM does not compute interactions of features",
                "ask for contributions"};
  }

  /// LightGBM itself refuses another number of features.
  void check_names(std::vector<std::string> const& given) const {
    auto const wanted = feature_names();
    if (wanted.size() != given.size()) return;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (given[i] == wanted[i] || wanted[i] == fmt::format("Column_{}", i)) continue;  // LightGBM's for no name
      throw Error{Errc::invalid_data, "predicting from a model of LightGBM",
                  fmt::format("its feature {} is '{}', and that of the data '{}'", i, wanted[i], given[i]),
                  "give the columns of the training, in their order, or name them by LightGBMDatasetOptions::features"};
    }
  }

  static auto by_class(std::vector<double> by_row, std::size_t rows) -> std::vector<double> {
    auto const count = by_row.size() / rows;
    if (count == 1) return by_row;
    std::vector<double> by_class(by_row.size());
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < count; ++i) by_class[i * rows + row] = by_row[row * count + i];
    }
    return by_class;
  }

  /// Row by row, in doubles.
  [[nodiscard]] auto predict_exactly(Dataset const& data, LightGBMDatasetOptions const& options,
                                     LightGBMPrediction how) const -> std::vector<double> {
    detail::LightGBMMatrix const matrix{data, options};
    check_names(matrix.names());
    return predict_values({matrix.data(), matrix.type(), matrix.rows(), matrix.features()}, how);
  }

  /// Features side by side, of LightGBM's number for their type.
  struct Table {
    void const* values;
    int type;
    std::int32_t rows;
    std::int32_t features;
  };

  [[nodiscard]] auto predict_values(Table const& table, LightGBMPrediction how) const -> std::vector<double> {
    auto const kind = type_of(how.type);
    std::int64_t size = 0;
    detail::lightgbm_call(
        detail::lightgbm::LGBM_BoosterCalcNumPredict(handle(), table.rows, kind, 0, how.rounds, &size),
        "LGBM_BoosterCalcNumPredict");
    std::vector<double> values(static_cast<std::size_t>(size));
    auto const parameters = fmt::format("verbosity=0 num_threads={}", how.threads);
    detail::lightgbm_call(
        detail::lightgbm::LGBM_BoosterPredictForMat(handle(), table.values, table.type, table.rows, table.features, 1,
                                                    kind, 0, how.rounds, parameters.c_str(), &size, values.data()),
        "LGBM_BoosterPredictForMat");
    values.resize(static_cast<std::size_t>(size));
    return values;
  }

  std::unique_ptr<void, Free> handle_;
  std::vector<std::pair<std::string, double>> datasets_;  ///< Names and total weights.
  std::vector<std::string> metrics_;
  std::map<std::string, std::string> attributes_;
};

/// The model as a checkpoint of which rank 0's is written.
[[nodiscard]] inline auto save(LightGBMBooster const& booster) -> CheckpointDraft {
  return CheckpointDraft::replicated([&](CheckpointDraft& draft) {
    draft.add(std::string{lightgbm_file_name}, booster.to_text());
    for (auto const& [name, value] : booster.attributes()) draft.set_metadata(name, value);
  });
}

}  // namespace raytrain
