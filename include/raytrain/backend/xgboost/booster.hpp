// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xgboost/c_api.h>
#include <xgboost/version_config.h>

#include <raytrain/backend/boosting/predictions.hpp>
#include <raytrain/backend/xgboost/detail/array_interface.hpp>
#include <raytrain/backend/xgboost/detail/matrix_bins.hpp>
#include <raytrain/backend/xgboost/detail/model_version.hpp>
#include <raytrain/backend/xgboost/detail/xgboost_library.hpp>
#include <raytrain/backend/xgboost/dmatrix.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// "1234.5" of "1,234.5" and of "1.234,5", as XGBoost writes numbers by C++'s global locale, with decimals always.
[[nodiscard]] inline auto without_locale(std::string_view text) -> std::string {
  auto const decimal_sign = text.find_last_of(".,");
  std::string number;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == decimal_sign) number += '.';
    // Between thousands stands anything, as a space of several bytes.
    auto const letter = static_cast<unsigned char>(text[i]);
    if (std::isalnum(letter) != 0 || letter == '-') number += text[i];
  }
  return number;
}

/// Of "[3]\ttrain-logloss:0.1\tvalid-auc:0.9".
[[nodiscard]] inline auto evaluations_in(std::string_view text) -> std::vector<Evaluation> {
  std::vector<Evaluation> evaluations;
  for (auto tab = text.find('\t'); tab != std::string_view::npos;) {
    auto const next = text.find('\t', tab + 1);
    auto const item = text.substr(tab + 1, next == std::string_view::npos ? next : next - tab - 1);
    auto const colon = item.rfind(':');
    Evaluation evaluation{std::string{item.substr(0, colon)}};
    auto const number = without_locale(item.substr(colon + 1));
    std::from_chars(number.data(), number.data() + number.size(), evaluation.value);  // also of "nan" and "inf"
    evaluations.push_back(std::move(evaluation));
    tab = next;
  }
  return evaluations;
}

}  // namespace raytrain::detail

namespace raytrain {

/// Form of a stored model, both of which XGBoost reads everywhere.
enum class ModelFormat : std::uint8_t { json, ubj };

/// An XGBoost model in training.
///
/// Threads: one at a time; XGBoost wants it to be made, used and freed on the worker's own.
/// Errors:  every function: `backend` with XGBoost's text.
class Booster {
 public:
  /// `matrices`: those that it will train on and evaluate, the former first, whose predictions it keeps from round to
  /// round.
  explicit Booster(std::vector<DMatrix const*> const& matrices = {}) {
    for (auto const* const matrix : matrices) matrices_.push_back(matrix->handle());
    BoosterHandle made = nullptr;
    detail::xgboost_call(XGBoosterCreate(matrices_.data(), matrices_.size(), &made), "XGBoosterCreate");
    handle_.reset(made);
    if (!matrices.empty()) bins_ = matrices.front()->bins();
  }

  [[nodiscard]] auto handle() const noexcept -> BoosterHandle { return handle_.get(); }

  /// Of the bins of blocks that all of its trees split between; empty: there are none such.
  [[nodiscard]] auto bins_digest() const -> std::string { return bins_ && !has_other_trees_ ? bins_->digest : ""; }

  /// For who loads a model of which trees split elsewhere than between the bins that it trains on from here on.
  void note_other_trees() noexcept { has_other_trees_ = true; }

  /// For workers that train together: of each of its matrices, whether rows lack values on some workers and on others
  /// none does.
  void note_uneven_gaps(std::vector<bool> are_uneven) { gaps_are_uneven_ = std::move(are_uneven); }

  void set_parameter(std::string const& name, std::string const& value) {
    detail::xgboost_call(XGBoosterSetParam(handle(), name.c_str(), value.c_str()),
                         fmt::format("setting XGBoost's parameter {} = {}", name, value));
  }

  /// Names and types of the matrix's features, which are stored with the model. A matrix without names leaves those
  /// that the model has.
  void describe_features(DMatrix const& matrix) {
    for (auto const* const field : {"feature_name", "feature_type"}) {
      bst_ulong count = 0;
      char const** texts = nullptr;
      detail::xgboost_call(XGDMatrixGetStrFeatureInfo(matrix.handle(), field, &count, &texts),
                           "XGDMatrixGetStrFeatureInfo");
      if (count == 0) continue;
      detail::xgboost_call(XGBoosterSetStrFeatureInfo(handle(), field, texts, count), "XGBoosterSetStrFeatureInfo");
    }
  }

  /// Rounds that the model has.
  [[nodiscard]] auto rounds() const -> int {
    int rounds = 0;
    detail::xgboost_call(XGBoosterBoostedRounds(handle(), &rounds), "XGBoosterBoostedRounds");
    return rounds;
  }

  /// What it adds up: "gbtree", "dart" or "gblinear".
  [[nodiscard]] auto kind() const -> std::string {
    return detail::configured_text(configuration(), {.object = "learner_train_param", .name = "booster"});
  }

  /// Numbers that it predicts for a row: the number of classes, or 1.
  [[nodiscard]] auto classes() const -> int {
    auto const text = detail::configured_text(configuration(), {.object = "learner_model_param", .name = "num_class"});
    int classes = 0;
    std::from_chars(text.data(), text.data() + text.size(), classes);
    return std::max(classes, 1);
  }

  /// Whether this model's features are those of the data. `attempted`: what an error names.
  ///
  /// Errors: `invalid_data` for another number of features, and for one of another name, where both have names.
  void check_features(DMatrix const& data, std::string_view attempted) const {
    auto const refuse = [&](std::string happened) {
      throw Error{
          Errc::invalid_data, std::string{attempted}, std::move(happened),
          "give the columns of the training, in their order, or name them by DMatrixOptions::features, and a label "
          "by DMatrixOptions::label"};
    };
    bst_ulong wanted = 0;
    bst_ulong count = 0;
    detail::xgboost_call(XGBoosterGetNumFeature(handle(), &wanted), "XGBoosterGetNumFeature");
    detail::xgboost_call(XGDMatrixNumCol(data.handle(), &count), "XGDMatrixNumCol");
    if (count != wanted) refuse(fmt::format("it has {} features, and the data {}", wanted, count));
    bst_ulong named = 0;
    char const** names = nullptr;
    detail::xgboost_call(XGBoosterGetStrFeatureInfo(handle(), "feature_name", &named, &names),
                         "XGBoosterGetStrFeatureInfo");
    for (std::size_t i = 0; i < std::min<std::size_t>(named, data.feature_names().size()); ++i) {
      auto const& given = data.feature_names()[i];
      if (given != names[i])
        refuse(fmt::format("its feature {} is '{}', and that of the data '{}'", i, names[i], given));
    }
  }

  /// One more round by the objective.
  ///
  /// Errors: where `note_uneven_gaps`: by `tree_method` hist `invalid_data` for such a matrix, and `invalid_call` for
  ///         one that the model was not made for.
  void update(int round, DMatrix const& train) {
    check_can_train(train);
    bins_ = train.bins();
    detail::xgboost_call(XGBoosterUpdateOneIter(handle(), round, train.handle()), "XGBoosterUpdateOneIter");
  }

  /// Of a loss by the margins: one for each row of this worker, or where there are classes one for each of them, row by
  /// row.
  struct Derivatives {
    std::span<float> gradients;
    std::span<float> hessians;
  };

  /// One more round by derivatives of the caller's own. Errors: as `update`.
  void boost([[maybe_unused]] int round, DMatrix const& train, Derivatives of_loss) {
    auto const [gradients, hessians] = of_loss;
    auto const rows = train.rows();
    if (gradients.size() != hessians.size() || gradients.empty() || gradients.size() % rows != 0) {
      throw Error{
          Errc::invalid_call, "Booster::boost",
          fmt::format("there are {} gradients and {} hessians for {} rows", gradients.size(), hessians.size(), rows),
          "give one of each for each row and class"};
    }
    check_can_train(train);
    bins_ = train.bins();
#if XGBOOST_VER_MAJOR > 2 || (XGBOOST_VER_MAJOR == 2 && XGBOOST_VER_MINOR >= 1)
    auto const array = [&](std::span<float> values) {
      return detail::array_interface(values.data(), "<f4", {rows, values.size() / rows});
    };
    detail::xgboost_call(
        XGBoosterTrainOneIter(handle(), train.handle(), round, array(gradients).c_str(), array(hessians).c_str()),
        "XGBoosterTrainOneIter");
#else
    detail::xgboost_call(
        XGBoosterBoostOneIter(handle(), train.handle(), gradients.data(), hessians.data(), gradients.size()),
        "XGBoosterBoostOneIter");
#endif
  }

  /// What the model says of the rows that it is trained on, before the objective's last step; with the booster dart
  /// without the trees that this round leaves out.
  [[nodiscard]] auto training_margins(DMatrix const& train) const -> std::vector<float> {
    return predict_as(train, R"({"type": 1, "training": true, "iteration_begin": 0, "iteration_end": 0, )"
                             R"("strict_shape": false})")
        .values;
  }

  /// Each metric on each matrix, by the matrix's name.
  ///
  /// Errors: `invalid_data` as of `check_features`, and for a matrix of other bins than those that the model trains on.
  [[nodiscard]] auto evaluate(int round, std::vector<std::pair<std::string, DMatrix const*>> const& matrices) const
      -> std::vector<Evaluation> {
    std::vector<DMatrixHandle> handles;
    std::vector<char const*> names;
    for (auto const& [name, matrix] : matrices) {
      auto const attempted = fmt::format("evaluating XGBoost's model on '{}'", name);
      check_features(*matrix, attempted);
      check_bins(*matrix, attempted);
      handles.push_back(matrix->handle());
      names.push_back(name.c_str());
    }
    char const* text = nullptr;
    detail::xgboost_call(XGBoosterEvalOneIter(handle(), round, handles.data(), names.data(), handles.size(), &text),
                         "XGBoosterEvalOneIter");
    return detail::evaluations_in(text);
  }

  /// Errors: `invalid_data` for other features than the model has, of which XGBoost takes fewer as missing ones, and
  ///         for a matrix of other bins than those that it was trained on here.
  [[nodiscard]] auto predict(DMatrix const& data, PredictionType type = PredictionType::value, int rounds = 0) const
      -> Predictions {
    check_features(data, "predicting from a model of XGBoost");
    check_bins(data, "predicting from a model of XGBoost");
    return predict_as(
        data,
        fmt::format(
            R"({{"type": {}, "training": false, "iteration_begin": 0, "iteration_end": {}, "strict_shape": false}})",
            static_cast<int>(type), rounds));
  }

  /// The model with its objective; what was set for training alone is not in it.
  [[nodiscard]] auto to_bytes(ModelFormat format = ModelFormat::ubj) const -> Bytes {
    char const* bytes = nullptr;
    bst_ulong size = 0;
    auto const* const config = format == ModelFormat::ubj ? R"({"format": "ubj"})" : R"({"format": "json"})";
    detail::xgboost_call(XGBoosterSaveModelToBuffer(handle(), config, &size, &bytes), "XGBoosterSaveModelToBuffer");
    auto const view = bytes_of(std::string_view{bytes, size});
    return {view.begin(), view.end()};
  }

  /// Errors: `invalid_data` for a model of a newer XGBoost.
  void load(BytesView model) {
    detail::check_model_version(model);
    detail::xgboost_call(XGBoosterLoadModelFromBuffer(handle(), model.data(), model.size()),
                         "XGBoosterLoadModelFromBuffer");
  }

  /// A text that goes with the model; empty when there is none of that name.
  [[nodiscard]] auto attribute(std::string const& name) const -> std::string {
    char const* value = nullptr;
    int found = 0;
    detail::xgboost_call(XGBoosterGetAttr(handle(), name.c_str(), &value, &found), "XGBoosterGetAttr");
    return found != 0 ? value : "";
  }
  void set_attribute(std::string const& name, std::string const& value) {
    auto const* const stored = value.empty() ? nullptr : value.c_str();  // which removes it
    detail::xgboost_call(XGBoosterSetAttr(handle(), name.c_str(), stored), "XGBoosterSetAttr");
  }

  /// How much each feature matters, of those that are in a tree. `kind`: "gain", "weight", "cover", "total_gain" or
  /// "total_cover".
  ///
  /// Errors: `invalid_call` for a linear model of several classes, which has a weight for each of them.
  [[nodiscard]] auto feature_importance(std::string const& kind) const -> std::map<std::string, double> {
    auto const config = fmt::format(R"({{"importance_type": "{}"}})", kind);
    bst_ulong features = 0;
    char const** names = nullptr;
    bst_ulong dimensions = 0;
    bst_ulong const* shape = nullptr;
    float const* scores = nullptr;
    detail::xgboost_call(
        XGBoosterFeatureScore(handle(), config.c_str(), &features, &names, &dimensions, &shape, &scores),
        "XGBoosterFeatureScore");
    if (dimensions > 1 && shape[1] > 1) {
      throw Error{Errc::invalid_call, "Booster::feature_importance",
                  fmt::format("this linear model has {} weights of each feature, one for each class", shape[1]),
                  "call XGBoosterFeatureScore with Booster::handle()"};
    }
    std::map<std::string, double> importance;
    for (bst_ulong i = 0; i < features; ++i) importance[names[i]] = scores[i];
    return importance;
  }

  /// All that decides how it trains, as XGBoost's JSON; it also makes XGBoost look at the parameters that were set.
  [[nodiscard]] auto configuration() const -> std::string {
    bst_ulong size = 0;
    char const* text = nullptr;
    detail::xgboost_call(XGBoosterSaveJsonConfig(handle(), &size, &text), "XGBoosterSaveJsonConfig");
    return {text, size};
  }

 private:
  struct Free {
    void operator()(void* handle) const noexcept { XGBoosterFree(handle); }
  };

  /// Bins of a matrix stand for values that the model's trees would take the other way.
  void check_bins(DMatrix const& data, std::string attempted) const {
    if (!data.bins() || data.bins() == bins_) return;
    throw Error{Errc::invalid_data, std::move(attempted),
                "the matrix keeps bins of its rows, which are not those that the model splits between",
                "give a dataset without DMatrixOptions::max_bin, or blocks with the matrix to train on as reference"};
  }

  void check_can_train(DMatrix const& train) const {
    if (gaps_are_uneven_.empty()) return;
    auto const index = std::ranges::find(matrices_, train.handle()) - matrices_.begin();
    bool const is_known = static_cast<std::size_t>(index) < gaps_are_uneven_.size();
    if (is_known && !gaps_are_uneven_[index]) return;
    if (!is_known) {
      throw Error{
          Errc::invalid_call, "training an XGBoost model", "the matrix is not one of those that the model was made for",
          "name it when you call XGBoostContext::booster, which looks whether workers can train on it together"};
    }
    if (detail::configured_text(configuration(), {.object = "gbtree_train_param", .name = "tree_method"}) != "hist")
      return;
    throw Error{Errc::invalid_data, "training by XGBoost's tree_method hist",
                "rows lack values on some workers and on others none does, of which XGBoost 1.7 would wait for ever",
                "give such rows as blocks or with DMatrixOptions::max_bin, which keep the bins of the values, fill in "
                "what is missing, mix the rows, or go on with as many workers as before"};
  }

  [[nodiscard]] auto predict_as(DMatrix const& data, std::string const& config) const -> Predictions {
    bst_ulong const* shape = nullptr;
    bst_ulong dimensions = 0;
    float const* values = nullptr;
    detail::xgboost_call(
        XGBoosterPredictFromDMatrix(handle(), data.handle(), config.c_str(), &shape, &dimensions, &values),
        "XGBoosterPredictFromDMatrix");
    Predictions predictions;
    predictions.shape.assign(shape, shape + dimensions);
    std::size_t count = 1;
    for (auto const extent : predictions.shape) count *= extent;
    predictions.values.assign(values, values + count);
    return predictions;
  }

  std::shared_ptr<detail::MatrixBins const> bins_;  ///< Of the rows that it trains on; null: none, or values.
  bool has_other_trees_ = false;                    ///< As `note_other_trees`.
  std::vector<DMatrixHandle> matrices_;             ///< Those that it was made for.
  std::vector<bool> gaps_are_uneven_;               ///< As `note_uneven_gaps`; empty: there is nothing to look for.
  std::unique_ptr<void, Free> handle_;
};

}  // namespace raytrain
