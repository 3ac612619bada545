// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <raytrain/backend/boosting/detail/feature_table.hpp>
#include <raytrain/backend/xgboost/detail/array_interface.hpp>
#include <raytrain/backend/xgboost/xgboost_call.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// What the columns of a dataset are to XGBoost.
struct DMatrixOptions {
  std::string label{};                     ///< Column of what is to be predicted; empty: none, for prediction.
  std::string weight{};                    ///< Column of the rows' weights; empty: all 1.
  std::string group{};                     ///< Column of query ids for ranking: rows of one lie together; empty: none.
  std::vector<std::string> features{};     ///< Empty: all other columns.
  std::vector<std::string> categorical{};  ///< Of the features, those whose values are categories, from 0 on.
  float missing = std::numeric_limits<float>::quiet_NaN();  ///< Feature value that stands for none.
  int threads = 0;                                          ///< To read the data with; 0: as many as XGBoost likes.
};

/// XGBoost's own form of a dataset. The dataset is copied into it, and not needed afterwards.
///
/// Threads: one at a time; XGBoost wants it to be made, used and freed on the worker's own.
class DMatrix {
 public:
  /// Errors: `not_found` for a column that is not there, listing those that are; `invalid_data` for no rows, no
  ///         features, a label, weight or group that is not one number a row, a label that is NaN or infinite, a
  ///         negative weight, and rows of a group that do not lie together; `backend` with XGBoost's text.
  explicit DMatrix(Dataset const& data, DMatrixOptions const& options = {}) {
    detail::FeatureTable const table{
        data, {options.label, options.weight, options.group, options.features, options.categorical}, "DMatrix"};
    names_ = table.names();
    read_features(table, options);
    name_features(table);
    if (!options.label.empty()) set_info("label", table.labels());
    if (!options.weight.empty()) set_info("weight", table.weights());
    if (!options.group.empty()) set_groups(table.group_sizes());
  }

  [[nodiscard]] auto handle() const noexcept -> DMatrixHandle { return handle_.get(); }

  [[nodiscard]] auto rows() const -> std::size_t {
    bst_ulong count = 0;
    detail::xgboost_call(XGDMatrixNumRow(handle(), &count), "XGDMatrixNumRow");
    return count;
  }

  /// In the order of the features.
  [[nodiscard]] auto feature_names() const noexcept -> std::vector<std::string> const& { return names_; }

  /// One for each row; empty without a label.
  [[nodiscard]] auto labels() const -> std::span<float const> { return info("label"); }

 private:
  struct Free {
    void operator()(void* handle) const noexcept { XGDMatrixFree(handle); }
  };

  void read_features(detail::FeatureTable const& table, DMatrixOptions const& options) {
    auto const missing = std::isnan(options.missing) ? std::string{"NaN"} : fmt::format("{:.9g}", options.missing);
    auto const config = fmt::format(R"({{"missing": {}, "nthread": {}}})", missing, options.threads);
    DMatrixHandle made = nullptr;
    auto const& first = table.columns().front();
    if (table.columns().size() == 1 && detail::array_interface_type(first.type())) {
      auto const array = detail::array_interface(first.bytes().data(), *detail::array_interface_type(first.type()),
                                                 table.rows(), first.row_values());
      detail::xgboost_call(XGDMatrixCreateFromDense(array.c_str(), config.c_str(), &made), "XGDMatrixCreateFromDense");
    } else {
      auto const values = table.row_major<float>();
      auto const array = detail::array_interface(values.data(), "<f4", table.rows(), names_.size());
      detail::xgboost_call(XGDMatrixCreateFromDense(array.c_str(), config.c_str(), &made), "XGDMatrixCreateFromDense");
    }
    handle_.reset(made);
  }

  void name_features(detail::FeatureTable const& table) {
    std::vector<std::string> types;
    for (bool const categorical : table.is_categorical()) types.emplace_back(categorical ? "c" : "q");
    set_texts("feature_name", names_);
    set_texts("feature_type", types);
  }

  void set_texts(char const* field, std::vector<std::string> const& texts) {
    std::vector<char const*> pointers;
    for (auto const& text : texts) pointers.push_back(text.c_str());
    detail::xgboost_call(XGDMatrixSetStrFeatureInfo(handle(), field, pointers.data(), pointers.size()),
                         "XGDMatrixSetStrFeatureInfo");
  }

  void set_info(char const* field, std::span<float const> values) {
    auto const array = detail::array_interface(values.data(), "<f4", values.size());
    detail::xgboost_call(XGDMatrixSetInfoFromInterface(handle(), field, array.c_str()),
                         "XGDMatrixSetInfoFromInterface");
  }

  void set_groups(std::span<std::uint32_t const> sizes) {
    auto const array = detail::array_interface(sizes.data(), "<u4", sizes.size());
    detail::xgboost_call(XGDMatrixSetInfoFromInterface(handle(), "group", array.c_str()),
                         "XGDMatrixSetInfoFromInterface");
  }

  [[nodiscard]] auto info(char const* field) const -> std::span<float const> {
    bst_ulong count = 0;
    float const* values = nullptr;
    detail::xgboost_call(XGDMatrixGetFloatInfo(handle(), field, &count, &values), "XGDMatrixGetFloatInfo");
    return {values, count};
  }

  std::vector<std::string> names_;
  std::unique_ptr<void, Free> handle_;
};

}  // namespace raytrain
