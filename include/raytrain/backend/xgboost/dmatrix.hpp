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
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <raytrain/backend/xgboost/detail/array_interface.hpp>
#include <raytrain/backend/xgboost/detail/quantile_matrix.hpp>
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
  /// Keeps what `tree_method` hist needs of numeric features and nothing else, in a fraction of the memory: of each
  /// value the bin, of as many bins as the booster's `max_bin`. 0: the values. Not with a weight, a group, or
  /// categories.
  int max_bin = 0;
};

/// XGBoost's own form of a dataset. The dataset is copied into it, and not needed afterwards.
///
/// Threads: one at a time; XGBoost wants it to be made, used and freed on the worker's own.
class DMatrix {
 public:
  /// Errors: `not_found` for a column that is not there, listing those that are; `invalid_data` for no rows, no
  ///         features, a label, weight or group that is not one number a row, a label that is NaN or infinite, a
  ///         negative weight, and rows of a group that do not lie together; `invalid_config` for bins
  ///         where there are none; `backend` with XGBoost's text.
  explicit DMatrix(Dataset const& data, DMatrixOptions options = {}) : options_{std::move(options)} {
    if (data.rows() == 0) refuse("there are no rows", "use fewer workers or more rows");
    choose_features(data);
    read_features(data.rows());
    name_features();
    if (!options_.label.empty()) set_label(data.column(options_.label));
    if (!options_.weight.empty()) set_weight(data.column(options_.weight));
    if (!options_.group.empty()) set_groups(data.column(options_.group));
    features_.clear();
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

  [[noreturn]] static void refuse(std::string happened, std::string remedy) {
    throw Error{Errc::invalid_data, "DMatrix", std::move(happened), std::move(remedy)};
  }

  void choose_features(Dataset const& data) {
    if (options_.features.empty()) {
      for (auto const& column : data.columns()) {
        auto const& name = column.name();
        if (name != options_.label && name != options_.weight && name != options_.group) features_.push_back(column);
      }
    } else {
      for (auto const& name : options_.features) features_.push_back(data.column(name));
    }
    if (features_.empty()) {
      refuse("the dataset has no column but label, weight and group", "give it at least one feature");
    }
    for (auto const& name : options_.categorical) (void)find_column(features_, name);
  }

  [[nodiscard]] auto config() const -> std::string {
    auto const missing = std::isnan(options_.missing) ? std::string{"NaN"} : fmt::format("{:.9g}", options_.missing);
    auto const max_bin = options_.max_bin > 0 ? fmt::format(R"(, "max_bin": {})", options_.max_bin) : std::string{};
    return fmt::format(R"({{"missing": {}, "nthread": {}{}}})", missing, options_.threads, max_bin);
  }

  void read_features(std::size_t rows) {
    if (options_.max_bin != 0) return read_bins(rows);
    DMatrixHandle made = nullptr;
    auto const& first = features_.front();
    if (features_.size() == 1 && detail::array_interface_type(first.type())) {
      auto const array = detail::array_interface(first.bytes().data(), *detail::array_interface_type(first.type()),
                                                 rows, first.row_values());
      detail::xgboost_call(XGDMatrixCreateFromDense(array.c_str(), config().c_str(), &made),
                           "XGDMatrixCreateFromDense");
    } else {
      auto const table = row_major(0, rows);
      auto const array = detail::array_interface(table.data(), "<f4", rows, table.size() / rows);
      detail::xgboost_call(XGDMatrixCreateFromDense(array.c_str(), config().c_str(), &made),
                           "XGDMatrixCreateFromDense");
    }
    handle_.reset(made);
  }

  void read_bins(std::size_t rows) {
    auto const refuse_bins = [&](std::string happened, char const* remedy) {
      throw Error{Errc::invalid_config, "DMatrixOptions::max_bin", std::move(happened), remedy};
    };
    if (options_.max_bin < 2) refuse_bins(fmt::format("must be at least 2 (got {})", options_.max_bin), "write 256");
    if (!options_.weight.empty() || !options_.group.empty() || !options_.categorical.empty()) {
      refuse_bins(fmt::format("is {}, and there is a weight, a group or a categorical feature", options_.max_bin),
                  "write 0");
    }
    // One column that XGBoost reads as it is needs no copy; others are put side by side a part after the other.
    auto const& first = features_.front();
    auto const type = features_.size() == 1 ? detail::array_interface_type(first.type()) : std::nullopt;
    auto const most = type ? rows : std::min(rows, most_batch_rows);
    std::vector<float> table;
    auto const array = [&](std::size_t row) {
      if (type) return detail::array_interface(first.bytes().data(), *type, rows, first.row_values());
      auto const count = std::min(most, rows - row);
      table = row_major(row, count);
      return detail::array_interface(table.data(), "<f4", count, table.size() / count);
    };
    handle_.reset(detail::new_quantile_matrix({rows, most}, array, config()));
  }

  /// All features of a row side by side, as XGBoost reads them fastest: it keeps them so. Of `rows` rows from `from`
  /// on.
  [[nodiscard]] auto row_major(std::size_t from, std::size_t rows) const -> std::vector<float> {
    std::size_t width = 0;
    for (auto const& column : features_) width += column.row_values();
    std::vector<float> table(rows * width);
    std::size_t first = 0;
    for (auto const& column : features_) {
      with_element_type(column.type(), [&]<Element T>(T*) {
        auto const count = column.row_values();
        auto const values = column.template as<T>().subspan(from * count);
        for (std::size_t row = 0; row < rows; ++row) {
          for (std::size_t i = 0; i < count; ++i)
            table[row * width + first + i] = static_cast<float>(values[row * count + i]);
        }
      });
      first += column.row_values();
    }
    return table;
  }

  void name_features() {
    std::vector<std::string> types;
    for (auto const& column : features_) {
      auto const is_categorical = std::ranges::find(options_.categorical, column.name()) != options_.categorical.end();
      for (std::size_t i = 0; i < column.row_values(); ++i) {
        names_.push_back(column.row_shape().empty() ? column.name() : fmt::format("{}_{}", column.name(), i));
        types.emplace_back(is_categorical ? "c" : "q");
      }
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

  void set_label(Column const& column) {
    auto const labels = numbers(column, "label");
    auto const bad = std::ranges::find_if(labels, [](float label) { return !std::isfinite(label); });
    if (bad != labels.end()) {
      refuse(fmt::format("row {} of the label column '{}' is {}", bad - labels.begin(), column.name(), *bad),
             "leave out rows without a label");
    }
    set_info("label", labels);
  }

  void set_weight(Column const& column) {
    auto const weights = numbers(column, "weight");
    auto const bad = std::ranges::find_if(weights, [](float weight) { return !(weight >= 0) || std::isinf(weight); });
    if (bad != weights.end()) {
      refuse(fmt::format("row {} of the weight column '{}' is {}", bad - weights.begin(), column.name(), *bad),
             "write 0 for rows that do not count");
    }
    set_info("weight", weights);
  }

  void set_groups(Column const& column) {
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
  }

  [[nodiscard]] auto info(char const* field) const -> std::span<float const> {
    bst_ulong count = 0;
    float const* values = nullptr;
    detail::xgboost_call(XGDMatrixGetFloatInfo(handle(), field, &count, &values), "XGDMatrixGetFloatInfo");
    return {values, count};
  }

  static constexpr std::size_t most_batch_rows = 65536;

  DMatrixOptions options_;
  std::vector<Column> features_;  ///< While the matrix is made.
  std::vector<std::string> names_;
  std::unique_ptr<void, Free> handle_;
};

}  // namespace raytrain
