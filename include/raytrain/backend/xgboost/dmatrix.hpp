// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/boosting/detail/feature_table.hpp>
#include <raytrain/backend/xgboost/csr_rows.hpp>
#include <raytrain/backend/xgboost/detail/array_interface.hpp>
#include <raytrain/backend/xgboost/detail/xgboost_library.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain::detail {

/// Rows that XGBoost goes through several times, a batch after the other.
class RowBatches {
 public:
  struct Size {
    std::size_t rows = 0;
    std::size_t batch_rows = 0;
  };
  /// Describes the batch that starts with a row, in the array interface, until it is called again.
  using Array = std::function<std::string(std::size_t first)>;

  RowBatches(Size size, Array array) : size_{size}, array_{std::move(array)} {
    DMatrixHandle made = nullptr;
    xgboost_call(XGProxyDMatrixCreate(&made), "XGProxyDMatrixCreate");
    proxy_.reset(made);
  }

  /// Errors: `backend` with XGBoost's text; what `array` throws.
  [[nodiscard]] auto quantile_matrix(std::string const& config) -> DMatrixHandle {
    DMatrixHandle made = nullptr;
    auto const status =
        XGQuantileDMatrixCreateFromCallback(this, proxy_.get(), nullptr, &reset, &advance, config.c_str(), &made);
    std::unique_ptr<void, Free> matrix{status == 0 ? made : nullptr};
    if (error_) std::rethrow_exception(error_);
    xgboost_call(status, "XGQuantileDMatrixCreateFromCallback");
    return matrix.release();
  }

 private:
  struct Free {
    void operator()(void* handle) const noexcept { XGDMatrixFree(handle); }
  };

  static void reset(DataIterHandle self) { static_cast<RowBatches*>(self)->next_ = 0; }

  /// 1: there is a batch, 0: there is none. XGBoost knows no third answer, and no exception may pass through it.
  static auto advance(DataIterHandle self) noexcept -> int {
    auto& batches = *static_cast<RowBatches*>(self);
    if (batches.next_ >= batches.size_.rows || batches.error_) return 0;
    try {
      auto const first = std::exchange(batches.next_, batches.next_ + batches.size_.batch_rows);
      xgboost_call(XGProxyDMatrixSetDataDense(batches.proxy_.get(), batches.array_(first).c_str()),
                   "XGProxyDMatrixSetDataDense");
      return 1;
    } catch (...) {
      batches.error_ = std::current_exception();
      return 0;
    }
  }

  Size size_;
  Array array_;
  std::unique_ptr<void, Free> proxy_;
  std::size_t next_ = 0;
  std::exception_ptr error_;
};

/// A new matrix that holds the bins of rows.
///
/// Errors: as `RowBatches`.
[[nodiscard]] inline auto new_quantile_matrix(RowBatches::Size size, RowBatches::Array array, std::string const& config)
    -> DMatrixHandle {
  return RowBatches{size, std::move(array)}.quantile_matrix(config);
}

}  // namespace raytrain::detail

namespace raytrain {

/// What the columns of a dataset are to XGBoost.
struct DMatrixOptions {
  std::string label{};                     ///< Column of what is to be predicted; empty: none, for prediction.
  std::string weight{};                    ///< Column of the rows' weights, the same within a group; empty: all 1.
  std::string group{};                     ///< Column of query ids for ranking: rows of one lie together; empty: none.
  std::vector<std::string> features{};     ///< Empty: all other columns.
  std::vector<std::string> categorical{};  ///< Features whose values are categories, from 0 on.
  float missing = std::numeric_limits<float>::quiet_NaN();  ///< Feature value that stands for none.
  int threads = 0;                                          ///< To read the data with; 0: as many as XGBoost likes.
  /// How many bins for each numeric feature; 0: keep the values. The matrix then keeps the bin of each value only, in a
  /// fraction of the memory. That serves `tree_method` hist alone, with the same `max_bin` of the booster, and without
  /// weights, groups and categories.
  int max_bin = 0;
};

/// XGBoost's own form of a dataset. The dataset is copied into it, and not needed afterwards.
///
/// Threads: one at a time; XGBoost wants it to be made, used and freed on the worker's own.
class DMatrix {
 public:
  /// Errors: `not_found` for a column that is not there, listing those that are; `invalid_data` for no rows, no
  ///         features, a label, weight or group that is not one number a row, a label that is NaN or infinite, a
  ///         negative weight, a group that is NaN, and rows of a group that do not lie together or have several
  ///         weights; `invalid_config` for bins where there are none; `backend` with XGBoost's text.
  explicit DMatrix(Dataset const& data, DMatrixOptions const& options = {}) {
    auto const table = table_of(data, options);
    names_ = table.names();
    read_features(table, options);
    describe_features(table);
    if (!options.label.empty()) set_info("label", table.labels());
    if (!options.group.empty()) set_groups(table.group_sizes());
    if (!options.weight.empty()) set_info("weight", options.group.empty() ? table.weights() : table.group_weights());
  }

  /// `threads`: to read the rows with; 0: as many as XGBoost likes.
  ///
  /// Errors: as `CsrRows::validate`; `invalid_data` for a label that is NaN or infinite, and a negative weight;
  ///         `backend` with XGBoost's text.
  explicit DMatrix(CsrRows const& rows, int threads = 0)
      : names_{rows.feature_names}, handle_{detail::new_csr_matrix(rows, threads)} {
    if (!names_.empty()) set_texts("feature_name", names_);
    detail::check_label_values(rows.labels, "labels", "DMatrix");
    if (!rows.labels.empty()) set_info("label", rows.labels);
    detail::check_weight_values(rows.weights, "weights", "DMatrix");
    if (!rows.weights.empty()) set_info("weight", rows.weights);
  }

  [[nodiscard]] auto handle() const noexcept -> DMatrixHandle { return handle_.get(); }

  [[nodiscard]] auto rows() const -> std::size_t {
    bst_ulong count = 0;
    detail::xgboost_call(XGDMatrixNumRow(handle(), &count), "XGDMatrixNumRow");
    return count;
  }

  /// Names of the features that a matrix of this dataset has.
  ///
  /// Errors: as the constructor for its columns.
  [[nodiscard]] static auto feature_names(Dataset const& data, DMatrixOptions const& options)
      -> std::vector<std::string> {
    return table_of(data, options).names();
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

  static constexpr std::size_t most_batch_rows = 65536;

  static auto table_of(Dataset const& data, DMatrixOptions const& options) -> detail::FeatureTable {
    return {data, {options.label, options.weight, options.group, options.features, options.categorical}, "DMatrix"};
  }

  static auto config(DMatrixOptions const& options) -> std::string {
    auto missing = fmt::format("{:.9g}", options.missing);
    if (std::isnan(options.missing)) missing = "NaN";
    if (std::isinf(options.missing)) missing = options.missing < 0 ? "-Infinity" : "Infinity";
    auto const max_bin = options.max_bin > 0 ? fmt::format(R"(, "max_bin": {})", options.max_bin) : std::string{};
    return fmt::format(R"({{"missing": {}, "nthread": {}{}}})", missing, options.threads, max_bin);
  }

  /// The array interface of features that are one column of a type that XGBoost reads.
  static auto column_as_it_is(detail::FeatureTable const& table) -> std::optional<std::string> {
    auto const& first = table.columns().front();
    auto const type = detail::array_interface_type(first.type());
    if (table.columns().size() > 1 || !type) return std::nullopt;
    return detail::array_interface(first.bytes().data(), *type, {table.rows(), first.row_values()});
  }

  void read_features(detail::FeatureTable const& table, DMatrixOptions const& options) {
    if (options.max_bin != 0) return read_bins(table, options);
    std::vector<float> values;
    auto array = column_as_it_is(table);
    if (!array) {
      values = table.row_major<float>();
      array = detail::array_interface(values.data(), "<f4", {table.rows(), names_.size()});
    }
    DMatrixHandle made = nullptr;
    detail::xgboost_call(XGDMatrixCreateFromDense(array->c_str(), config(options).c_str(), &made),
                         "XGDMatrixCreateFromDense");
    handle_.reset(made);
  }

  /// Features that are not in one column are put side by side for a part of the rows after the other.
  void read_bins(detail::FeatureTable const& table, DMatrixOptions const& options) {
    auto const refuse = [&](std::string happened, char const* remedy) {
      throw Error{Errc::invalid_config, "DMatrixOptions::max_bin", std::move(happened), remedy};
    };
    if (options.max_bin < 2) refuse(fmt::format("must be at least 2 (got {})", options.max_bin), "write 256");
    if (!options.weight.empty() || !options.group.empty() || !options.categorical.empty()) {
      refuse(fmt::format("is {}, and there is a weight, a group or a categorical feature", options.max_bin), "write 0");
    }
    auto const whole = column_as_it_is(table);
    auto const most = whole ? table.rows() : std::min(table.rows(), most_batch_rows);
    std::vector<float> values;
    auto const batch = [&](std::size_t first) {
      if (whole) return *whole;
      auto const count = std::min(most, table.rows() - first);
      values = table.row_major<float>(first, count);
      return detail::array_interface(values.data(), "<f4", {count, names_.size()});
    };
    handle_.reset(detail::new_quantile_matrix({table.rows(), most}, batch, config(options)));
  }

  void describe_features(detail::FeatureTable const& table) {
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
    auto const array = detail::array_interface(values.data(), "<f4", {values.size()});
    detail::xgboost_call(XGDMatrixSetInfoFromInterface(handle(), field, array.c_str()),
                         "XGDMatrixSetInfoFromInterface");
  }

  void set_groups(std::span<std::uint32_t const> sizes) {
    auto const array = detail::array_interface(sizes.data(), "<u4", {sizes.size()});
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
