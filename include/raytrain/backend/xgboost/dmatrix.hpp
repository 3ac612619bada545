// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <raytrain/backend/xgboost/csr_rows.hpp>
#include <raytrain/backend/xgboost/detail/array_interface.hpp>
#include <raytrain/backend/xgboost/xgboost_call.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/data/column.hpp>
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
  ///         negative weight, and rows of a group that do not lie together or have several weights; `backend` with
  ///         XGBoost's text.
  explicit DMatrix(Dataset const& data, DMatrixOptions options = {}) : options_{std::move(options)} {
    if (data.rows() == 0) refuse("there are no rows", "use fewer workers or more rows");
    features_ = features_of(data, options_);
    names_ = names_of(features_);
    read_features(data.rows());
    describe_features();
    if (!options_.label.empty()) {
      set_labels(numbers(data.column(options_.label), "label"), fmt::format("the label column '{}'", options_.label));
    }
    auto weights = options_.weight.empty() ? std::vector<float>{} : numbers(data.column(options_.weight), "weight");
    if (!options_.group.empty()) {
      auto const sizes = set_groups(data.column(options_.group));
      if (!weights.empty()) weights = of_groups(sizes, weights);
    }
    if (!weights.empty()) set_weights(weights, fmt::format("the weight column '{}'", options_.weight));
    features_.clear();
  }

  /// `threads`: to read the rows with; 0: as many as XGBoost likes.
  ///
  /// Errors: as `CsrRows::validate`; `invalid_data` for a label that is NaN or infinite, and a negative weight;
  ///         `backend` with XGBoost's text.
  explicit DMatrix(CsrRows const& rows, int threads = 0)
      : names_{rows.feature_names}, handle_{detail::new_csr_matrix(rows, threads)} {
    if (!names_.empty()) set_texts("feature_name", names_);
    if (!rows.labels.empty()) set_labels(rows.labels, "labels");
    if (!rows.weights.empty()) set_weights(rows.weights, "weights");
  }

  [[nodiscard]] auto handle() const noexcept -> DMatrixHandle { return handle_.get(); }

  [[nodiscard]] auto rows() const -> std::size_t {
    bst_ulong count = 0;
    detail::xgboost_call(XGDMatrixNumRow(handle(), &count), "XGDMatrixNumRow");
    return count;
  }

  /// Those that a matrix of this dataset has.
  ///
  /// Errors: as the constructor for its columns.
  [[nodiscard]] static auto feature_names(Dataset const& data, DMatrixOptions const& options)
      -> std::vector<std::string> {
    return names_of(features_of(data, options));
  }

  /// In the order of the features; none where `CsrRows` has none.
  [[nodiscard]] auto feature_names() const noexcept -> std::vector<std::string> const& { return names_; }

  /// One for each row; empty without a label.
  [[nodiscard]] auto labels() const -> std::span<float const> { return info("label"); }

  /// One for each row, or where there are groups for each of them; empty without weights.
  [[nodiscard]] auto weights() const -> std::span<float const> { return info("weight"); }

 private:
  struct Free {
    void operator()(void* handle) const noexcept { XGDMatrixFree(handle); }
  };

  [[noreturn]] static void refuse(std::string happened, std::string remedy) {
    throw Error{Errc::invalid_data, "DMatrix", std::move(happened), std::move(remedy)};
  }

  static auto features_of(Dataset const& data, DMatrixOptions const& options) -> std::vector<Column> {
    std::vector<Column> features;
    if (options.features.empty()) {
      for (auto const& column : data.columns()) {
        auto const& name = column.name();
        if (name != options.label && name != options.weight && name != options.group) features.push_back(column);
      }
    } else {
      for (auto const& name : options.features) features.push_back(data.column(name));
    }
    if (features.empty()) {
      refuse("the dataset has no column but label, weight and group", "give it at least one feature");
    }
    for (auto const& name : options.categorical) (void)find_column(features, name);
    return features;
  }

  static auto names_of(std::vector<Column> const& features) -> std::vector<std::string> {
    std::vector<std::string> names;
    for (auto const& column : features) {
      for (std::size_t i = 0; i < column.row_values(); ++i) {
        names.push_back(column.row_shape().empty() ? column.name() : fmt::format("{}_{}", column.name(), i));
      }
    }
    return names;
  }

  [[nodiscard]] auto config() const -> std::string {
    auto const missing = std::isnan(options_.missing) ? std::string{"NaN"} : fmt::format("{:.9g}", options_.missing);
    return fmt::format(R"({{"missing": {}, "nthread": {}}})", missing, options_.threads);
  }

  void read_features(std::size_t rows) {
    DMatrixHandle made = nullptr;
    auto const& first = features_.front();
    if (features_.size() == 1 && detail::array_interface_type(first.type())) {
      auto const array = detail::array_interface(first.bytes().data(), *detail::array_interface_type(first.type()),
                                                 rows, first.row_values());
      detail::xgboost_call(XGDMatrixCreateFromDense(array.c_str(), config().c_str(), &made),
                           "XGDMatrixCreateFromDense");
    } else {
      auto const table = row_major(rows);
      auto const array = detail::array_interface(table.data(), "<f4", rows, table.size() / rows);
      detail::xgboost_call(XGDMatrixCreateFromDense(array.c_str(), config().c_str(), &made),
                           "XGDMatrixCreateFromDense");
    }
    handle_.reset(made);
  }

  /// All features of a row side by side, as XGBoost reads them fastest: it keeps them so.
  [[nodiscard]] auto row_major(std::size_t rows) const -> std::vector<float> {
    std::size_t width = 0;
    for (auto const& column : features_) width += column.row_values();
    std::vector<float> table(rows * width);
    std::size_t first = 0;
    for (auto const& column : features_) {
      with_element_type(column.type(), [&]<Element T>(T*) {
        auto const values = column.template as<T>();
        auto const count = column.row_values();
        for (std::size_t row = 0; row < rows; ++row) {
          for (std::size_t i = 0; i < count; ++i)
            table[row * width + first + i] = static_cast<float>(values[row * count + i]);
        }
      });
      first += column.row_values();
    }
    return table;
  }

  void describe_features() {
    std::vector<std::string> types;
    for (auto const& column : features_) {
      auto const is_categorical = std::ranges::find(options_.categorical, column.name()) != options_.categorical.end();
      types.insert(types.end(), column.row_values(), is_categorical ? "c" : "q");
    }
    set_texts("feature_name", names_);
    set_texts("feature_type", types);
  }

  void set_texts(char const* field, std::vector<std::string> const& texts) {
    std::vector<char const*> pointers;
    for (auto const& text : texts) pointers.push_back(text.c_str());
    detail::xgboost_call(XGDMatrixSetStrFeatureInfo(handle(), field, pointers.data(), pointers.size()),
                         "XGDMatrixSetStrFeatureInfo");
  }

  /// A column of one number a row, as floats.
  static auto numbers(Column const& column, std::string_view what) -> std::vector<float> {
    if (column.row_values() != 1) {
      refuse(fmt::format("the {} column {} is not one number a row", what, column.describe()), "name another column");
    }
    std::vector<float> numbers(column.rows());
    with_element_type(column.type(), [&]<Element T>(T*) {
      std::ranges::transform(column.template as<T>(), numbers.begin(),
                             [](T value) { return static_cast<float>(value); });
    });
    return numbers;
  }

  void set_info(char const* field, std::span<float const> values) {
    auto const array = detail::array_interface(values.data(), "<f4", values.size());
    detail::xgboost_call(XGDMatrixSetInfoFromInterface(handle(), field, array.c_str()),
                         "XGDMatrixSetInfoFromInterface");
  }

  void set_labels(std::span<float const> labels, std::string_view where) {
    auto const bad = std::ranges::find_if(labels, [](float label) { return !std::isfinite(label); });
    if (bad != labels.end()) {
      refuse(fmt::format("row {} of {} is {}", bad - labels.begin(), where, *bad), "leave out rows without a label");
    }
    set_info("label", labels);
  }

  void set_weights(std::span<float const> weights, std::string_view where) {
    auto const bad = std::ranges::find_if(weights, [](float weight) { return !(weight >= 0) || std::isinf(weight); });
    if (bad != weights.end()) {
      refuse(fmt::format("row {} of {} is {}", bad - weights.begin(), where, *bad),
             "write 0 for rows that do not count");
    }
    set_info("weight", weights);
  }

  /// XGBoost has a weight for each group.
  [[nodiscard]] auto of_groups(std::vector<std::uint32_t> const& sizes, std::span<float const> weights) const
      -> std::vector<float> {
    std::vector<float> of_group;
    for (std::size_t row = 0; auto const size : sizes) {
      auto const group = weights.subspan(row, size);
      auto const other = std::ranges::find_if(group, [&](float weight) { return weight != group.front(); });
      if (other != group.end()) {
        refuse(
            fmt::format("rows {} and {} are in one group of the column '{}', and their weights in '{}' are {} and {}",
                        row, row + static_cast<std::size_t>(other - group.begin()), options_.group, options_.weight,
                        group.front(), *other),
            "give all rows of a group the same weight");
      }
      of_group.push_back(group.front());
      row += size;
    }
    return of_group;
  }

  /// The groups' sizes.
  auto set_groups(Column const& column) -> std::vector<std::uint32_t> {
    if (column.row_values() != 1) (void)numbers(column, "group");
    std::vector<std::uint32_t> sizes;
    with_element_type(column.type(), [&]<Element T>(T*) {
      using Id = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
      auto const values = column.template as<T>();
      std::vector<Id> ids(values.size());
      std::ranges::transform(values, ids.begin(), [](T value) { return static_cast<Id>(value); });
      std::vector<Id> seen;
      for (std::size_t row = 0; row < ids.size(); ++row) {
        if (row == 0 || !(ids[row] == ids[row - 1])) {
          seen.push_back(ids[row]);
          sizes.push_back(0);
        }
        ++sizes.back();
      }
      std::ranges::sort(seen);
      if (std::ranges::adjacent_find(seen) != seen.end()) {
        refuse(fmt::format("rows of one group in the column '{}' do not lie together", column.name()),
               "sort the rows by group");
      }
    });
    auto const array = detail::array_interface(sizes.data(), "<u4", sizes.size());
    detail::xgboost_call(XGDMatrixSetInfoFromInterface(handle(), "group", array.c_str()),
                         "XGDMatrixSetInfoFromInterface");
    return sizes;
  }

  [[nodiscard]] auto info(char const* field) const -> std::span<float const> {
    bst_ulong count = 0;
    float const* values = nullptr;
    detail::xgboost_call(XGDMatrixGetFloatInfo(handle(), field, &count, &values), "XGDMatrixGetFloatInfo");
    return {values, count};
  }

  DMatrixOptions options_;
  std::vector<Column> features_;  ///< While the matrix is made.
  std::vector<std::string> names_;
  std::unique_ptr<void, Free> handle_;
};

}  // namespace raytrain
