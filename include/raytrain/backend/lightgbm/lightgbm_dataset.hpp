// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include <raytrain/backend/boosting/detail/feature_table.hpp>
#include <raytrain/backend/lightgbm/detail/lightgbm_library.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// What the columns of a dataset are to LightGBM, and how it reads them.
struct LightGBMDatasetOptions {
  std::string label{};                     ///< Column of what is to be predicted; empty: none, for prediction.
  std::string weight{};                    ///< Column of the rows' weights; empty: all 1.
  std::string group{};                     ///< Column of query ids for ranking: rows of one lie together; empty: none.
  std::vector<std::string> features{};     ///< Empty: all other columns.
  std::vector<std::string> categorical{};  ///< Features whose values are categories, from 0 on.
  /// Parameters of LightGBM: those that decide how features are put into bins (`max_bin`), and all others as well.
  std::map<std::string, std::string> params{};
};

namespace detail {

/// Parameters as LightGBM reads them.
///
/// Errors: `invalid_config` for a space in one of them, at which LightGBM would end it.
[[nodiscard]] inline auto lightgbm_parameters(std::map<std::string, std::string> const& params) -> std::string {
  std::string text;
  for (auto const& [name, value] : params) {
    auto const one = name + '=' + value;
    if (name.empty() || one.find_first_of(" \t\r\n") != std::string::npos) {
      throw Error{Errc::invalid_config, "LightGBM's parameter '" + one + "'", "has a space or no name",
                  "LightGBM takes names and values without spaces"};
    }
    text += (text.empty() ? "" : " ") + one;
  }
  return text;
}

[[nodiscard]] inline auto feature_table(Dataset const& data, LightGBMDatasetOptions const& options) -> FeatureTable {
  return {
      data, {options.label, options.weight, options.group, options.features, options.categorical}, "LightGBMDataset"};
}

/// The features of a dataset's rows in memory, as LightGBM reads them: as they are where they lie side by side, else
/// copied, to doubles where floats are not exact.
class LightGBMMatrix {
 public:
  LightGBMMatrix(Dataset const& data, LightGBMDatasetOptions const& options) : table_{feature_table(data, options)} {
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
    if (table_.rows() > most) {
      throw Error{Errc::invalid_data, "LightGBMDataset",
                  fmt::format("{} rows are more than LightGBM can count, {}", table_.rows(), most), "use more workers"};
    }
    auto const columns = table_.columns();
    auto const type = columns.front().type();
    if (columns.size() == 1 && (type == ElementType::float32 || type == ElementType::float64)) {
      data_ = columns.front().bytes().data();
      type_ = type == ElementType::float32 ? lightgbm::float32 : lightgbm::float64;
    } else if (std::ranges::all_of(columns, [](auto const& column) { return fits_float(column.type()); })) {
      data_ = copied_.emplace<1>(table_.row_major<float>()).data();
      type_ = lightgbm::float32;
    } else {
      data_ = copied_.emplace<2>(table_.row_major<double>()).data();
      type_ = lightgbm::float64;
    }
  }
  LightGBMMatrix(LightGBMMatrix const&) = delete;
  auto operator=(LightGBMMatrix const&) -> LightGBMMatrix& = delete;

  [[nodiscard]] auto table() const noexcept -> FeatureTable const& { return table_; }
  /// As a model has them: with '_' for a space.
  [[nodiscard]] auto names() const -> std::vector<std::string> {
    auto names = table_.names();
    for (auto& name : names) std::ranges::replace(name, ' ', '_');
    return names;
  }
  [[nodiscard]] auto data() const noexcept -> void const* { return data_; }
  [[nodiscard]] auto type() const noexcept -> int { return type_; }
  [[nodiscard]] auto rows() const noexcept -> std::int32_t { return static_cast<std::int32_t>(table_.rows()); }
  [[nodiscard]] auto features() const noexcept -> std::int32_t {
    return static_cast<std::int32_t>(table_.names().size());
  }

 private:
  static constexpr auto fits_float(ElementType type) noexcept -> bool {
    return type == ElementType::float32 || size_bytes(type) < sizeof(float);
  }

  FeatureTable table_;
  std::variant<std::monostate, std::vector<float>, std::vector<double>> copied_;
  void const* data_ = nullptr;
  int type_ = lightgbm::float32;
};

}  // namespace detail

/// LightGBM's own form of a dataset: features in bins. The dataset is copied into it, and not needed afterwards.
///
/// Threads: one at a time; where workers train together it is made, used and freed on the worker's own.
class LightGBMDataset {
 public:
  /// `reference`: the dataset that a model trains on, whose bins this one gets, to be evaluated with it.
  ///
  /// Errors: `not_found` for a column that is not there, listing those that are; `invalid_data` for no rows, no
  ///         features, a label, weight or group that is not one number a row, a label that is NaN or infinite, a
  ///         negative weight, a group that is NaN, and rows of a group that do not lie together; `backend` with
  ///         LightGBM's text.
  explicit LightGBMDataset(Dataset const& data, LightGBMDatasetOptions const& options = {},
                           LightGBMDataset const* reference = nullptr)
      : LightGBMDataset{detail::LightGBMMatrix{data, options}, options, reference} {}

  [[nodiscard]] auto handle() const noexcept -> void* { return handle_.get(); }
  [[nodiscard]] auto rows() const noexcept -> std::size_t { return rows_; }

  /// In the order of the features; with '_' for a space, which LightGBM has none of.
  [[nodiscard]] auto feature_names() const noexcept -> std::vector<std::string> const& { return names_; }

  /// One for each row; empty without a label.
  [[nodiscard]] auto labels() const noexcept -> std::span<float const> { return labels_; }

  /// Sum of the rows' weights; their number without a weight.
  [[nodiscard]] auto total_weight() const noexcept -> double { return total_weight_; }

  /// The margins from which boosting goes on: those of all rows for the first class, then for the next one.
  void set_initial_scores(std::span<double const> scores) { set_field<double>("init_score", scores); }

 private:
  struct Free {
    void operator()(void* handle) const noexcept { detail::lightgbm::LGBM_DatasetFree(handle); }
  };

  LightGBMDataset(detail::LightGBMMatrix const& matrix, LightGBMDatasetOptions const& options,
                  LightGBMDataset const* reference)
      : rows_{matrix.table().rows()}, names_{matrix.names()}, labels_{matrix.table().labels()} {
    detail::LightGBMLog::keep();
    auto parameters = options.params;
    auto const& is_categorical = matrix.table().is_categorical();
    std::string categorical;
    for (std::size_t i = 0; i < is_categorical.size(); ++i) {
      if (is_categorical[i]) categorical += (categorical.empty() ? "" : ",") + std::to_string(i);
    }
    if (!categorical.empty()) parameters["categorical_feature"] = categorical;
    void* made = nullptr;
    detail::lightgbm_call(
        detail::lightgbm::LGBM_DatasetCreateFromMat(matrix.data(), matrix.type(), matrix.rows(), matrix.features(), 1,
                                                    detail::lightgbm_parameters(parameters).c_str(),
                                                    reference != nullptr ? reference->handle() : nullptr, &made),
        "LGBM_DatasetCreateFromMat");
    handle_.reset(made);
    name_features();
    if (!labels_.empty()) set_field<float>("label", labels_);
    auto const weights = matrix.table().weights();
    total_weight_ = weights.empty() ? static_cast<double>(rows_) : std::accumulate(weights.begin(), weights.end(), 0.0);
    if (!weights.empty()) set_field<float>("weight", weights);
    auto const groups = matrix.table().group_sizes();
    if (!groups.empty()) set_field<std::uint32_t>("group", groups);
  }

  void name_features() {
    std::vector<char const*> pointers;
    for (auto const& name : names_) pointers.push_back(name.c_str());
    detail::lightgbm_call(
        detail::lightgbm::LGBM_DatasetSetFeatureNames(handle(), pointers.data(), static_cast<int>(pointers.size())),
        "LGBM_DatasetSetFeatureNames", "rename the dataset's columns");
  }

  template <class T>
  static constexpr int field_type = std::is_same_v<T, float>    ? detail::lightgbm::float32
                                    : std::is_same_v<T, double> ? detail::lightgbm::float64
                                                                : detail::lightgbm::int32;

  template <class T>
  void set_field(char const* field, std::span<T const> values) {
    if (values.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      throw Error{Errc::invalid_data, fmt::format("setting LightGBM's field {}", field),
                  fmt::format("{} values are more than LightGBM can count", values.size()), "use more workers"};
    }
    detail::lightgbm_call(detail::lightgbm::LGBM_DatasetSetField(handle(), field, values.data(),
                                                                 static_cast<int>(values.size()), field_type<T>),
                          fmt::format("setting LightGBM's field {}", field));
  }

  std::size_t rows_;
  std::vector<std::string> names_;
  std::vector<float> labels_;
  double total_weight_ = 0;
  std::unique_ptr<void, Free> handle_;
};

}  // namespace raytrain
