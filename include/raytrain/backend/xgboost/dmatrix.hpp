// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
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
#include <raytrain/backend/xgboost/detail/block_batches.hpp>
#include <raytrain/backend/xgboost/detail/matrix_bins.hpp>
#include <raytrain/backend/xgboost/detail/row_batches.hpp>
#include <raytrain/backend/xgboost/detail/xgboost_library.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>

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
  /// How many bins for each numeric feature; 0: keep the values, or of blocks 256 bins. The matrix then keeps the bin
  /// of each value only, in a fraction of the memory. That serves `tree_method` hist alone, with the same `max_bin` of
  /// the booster, without groups, and of rows in memory without weights and categories.
  int max_bin = 0;
};

/// XGBoost's own form of a dataset. The dataset is copied into it, and not needed afterwards.
///
/// Of several workers make it by `XGBoostContext::dmatrix`: XGBoost waits for ever where theirs do not fit together.
///
/// Threads: one at a time; XGBoost wants it to be made, used and freed on the worker's own.
class DMatrix {
 public:
  /// Errors: `not_found` for a column that is not there, listing those that are; `invalid_data` for no rows, no
  ///         features, a label, weight or group that is not one number a row, a label that is NaN or infinite, a
  ///         negative weight, a group that is NaN, and rows of a group that do not lie together or have several
  ///         weights; `invalid_config` for bins where there are none; `backend` with XGBoost's text.
  explicit DMatrix(Dataset const& data, DMatrixOptions const& options = {})
      : DMatrix{data, options, detail::RowStorage::as_they_are} {}

  /// `storage`: of bins; a matrix that keeps the values has them as they are.
  DMatrix(Dataset const& data, DMatrixOptions const& options, detail::RowStorage storage) {
    auto const table = table_of(data, options);
    names_ = table.names();
    read_features(table, options, storage);
    describe_features(detail::feature_types(table.is_categorical()));
    if (!options.label.empty()) set_numbers<float>("label", table.labels());
    if (!options.group.empty()) set_numbers<std::uint32_t>("group", table.group_sizes());
    if (!options.weight.empty()) {
      set_numbers<float>("weight", options.group.empty() ? table.weights() : table.group_weights());
    }
  }

  /// `threads`: to read the rows with; 0: as many as XGBoost likes.
  ///
  /// Errors: as `CsrRows::validate`; `invalid_data` for a label that is NaN or infinite, and a negative weight;
  ///         `backend` with XGBoost's text.
  explicit DMatrix(CsrRows const& rows, int threads = 0)
      : names_{rows.feature_names}, handle_{detail::new_csr_matrix(rows, threads)} {
    if (!names_.empty()) detail::set_matrix_texts(handle(), "feature_name", names_);
    detail::check_label_values(rows.labels, "labels", "DMatrix");
    if (!rows.labels.empty()) set_numbers<float>("label", rows.labels);
    detail::check_weight_values(rows.weights, "weights", "DMatrix");
    if (!rows.weights.empty()) set_numbers<float>("weight", rows.weights);
  }

  /// Rows that come block by block, of which one is in memory at a time. The matrix keeps the bins of all of them, as
  /// XGBoost does by rows and by columns: two bytes for each value, four with a `max_bin` above 256; and the labels and
  /// weights. `reference`: the matrix that a model trains on, whose bins this one gets, to be evaluated with
  /// it, as many as that has; null: bins of these rows. `make_blocks` is called for each time that XGBoost goes through
  /// the rows, which XGBoost 1.7 does four times.
  ///
  /// Errors: as the other one for each block, with its rows; `invalid_data` for blocks whose features differ, for an
  ///         infinite feature, for a category that is negative or that the reference's rows do not have, for other
  ///         features than the reference's, and for other rows than at first; as `batches_of`; what the blocks' reader
  ///         throws.
  explicit DMatrix(MakeBlocks make_blocks, DMatrixOptions const& options = {}, DMatrix const* reference = nullptr)
      : DMatrix{*batches_of(std::move(make_blocks), options, reference), options, reference} {}

  /// Of what `batches_of` has made with the same options and reference.
  DMatrix(detail::BlockBatches& batches, DMatrixOptions options, DMatrix const* reference,
          detail::RowStorage storage = detail::RowStorage::as_they_are)
      : names_{batches.names()} {
    options.max_bin = bins_of_blocks(options, reference);
    batches.begin(storage);
    handle_.reset(
        detail::new_quantile_matrix(batches, config(options), reference != nullptr ? reference->handle() : nullptr));
    describe_features(batches.types());
    bins_ = reference != nullptr ? reference->bins_
                                 : std::make_shared<detail::MatrixBins>(detail::MatrixBins{
                                       options.max_bin, names_, batches.types(), batches.largest_categories(),
                                       fmt::format("{} bins of rows {:016x}", options.max_bin, batches.rows_digest())});
  }

  /// The rows, of which it looks at the first block.
  ///
  /// Errors: as `BlockBatches`; `invalid_config` for groups, for a `max_bin` of 1 or less than 0, and for another one
  ///         than the reference's; `invalid_call` for a reference that keeps its values.
  [[nodiscard]] static auto batches_of(MakeBlocks make_blocks, DMatrixOptions const& options, DMatrix const* reference)
      -> std::unique_ptr<detail::BlockBatches> {
    auto roles = roles_of_blocks(options);
    (void)bins_of_blocks(options, reference);
    return std::make_unique<detail::BlockBatches>(std::move(make_blocks), std::move(roles), options.missing,
                                                  reference != nullptr ? reference->bins_.get() : nullptr);
  }

  /// Of how many bins a matrix of blocks is.
  ///
  /// Errors: as `batches_of`.
  [[nodiscard]] static auto bins_of_blocks(DMatrixOptions const& options, DMatrix const* reference) -> int {
    constexpr int usual = 256;
    if (reference == nullptr) {
      if (options.max_bin != 0) check_max_bin(options);
      return options.max_bin == 0 ? usual : options.max_bin;
    }
    if (!reference->bins_) {
      throw Error{Errc::invalid_call, "DMatrix with the bins of a reference", "the reference keeps its values",
                  "make it of blocks, or with DMatrixOptions::max_bin; or give a dataset without bins here"};
    }
    auto const theirs = reference->bins_->max_bin;
    if (options.max_bin != 0 && options.max_bin != theirs) {
      throw Error{Errc::invalid_config, "DMatrixOptions::max_bin",
                  fmt::format("is {}, and that of the reference {}", options.max_bin, theirs), "write 0"};
    }
    return theirs;
  }

  /// Null where it keeps its values.
  [[nodiscard]] auto bins() const noexcept -> std::shared_ptr<detail::MatrixBins const> { return bins_; }

  /// For workers that have made bins together: all know the largest category of each feature, and what the bins of all
  /// follow from.
  void note_bins_of_all(std::vector<float> largest_categories, std::string digest) {
    bins_->largest_categories = std::move(largest_categories);
    bins_->digest = std::move(digest);
  }

  [[nodiscard]] auto handle() const noexcept -> DMatrixHandle { return handle_.get(); }

  [[nodiscard]] auto rows() const -> std::size_t {
    bst_ulong count = 0;
    detail::xgboost_call(XGDMatrixNumRow(handle(), &count), "XGDMatrixNumRow");
    return count;
  }

  /// Whether a row lacks a feature's value.
  [[nodiscard]] auto has_gaps() const -> bool {
    bst_ulong features = 0;
    bst_ulong values = 0;
    detail::xgboost_call(XGDMatrixNumCol(handle(), &features), "XGDMatrixNumCol");
    detail::xgboost_call(XGDMatrixNumNonMissing(handle(), &values), "XGDMatrixNumNonMissing");
    return values < rows() * features;
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
  static constexpr std::size_t most_batch_rows = 65536;

  /// How blocks are looked at.
  ///
  /// Errors: `invalid_config` for groups.
  [[nodiscard]] static auto roles_of_blocks(DMatrixOptions const& options) -> detail::FeatureTable::Roles {
    if (!options.group.empty()) {
      throw Error{Errc::invalid_config, "DMatrixOptions::group",
                  fmt::format("is '{}', and rows that come in blocks have no groups", options.group),
                  "give a dataset, as `materialize` makes it of blocks"};
    }
    return {options.label, options.weight, options.group, options.features, options.categorical};
  }

  static void check_max_bin(DMatrixOptions const& options) {
    if (options.max_bin >= 2) return;
    throw Error{Errc::invalid_config, "DMatrixOptions::max_bin",
                fmt::format("must be at least 2 (got {})", options.max_bin), "write 256"};
  }

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

  void read_features(detail::FeatureTable const& table, DMatrixOptions const& options, detail::RowStorage storage) {
    if (options.max_bin != 0) return read_bins(table, options, storage);
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
  void read_bins(detail::FeatureTable const& table, DMatrixOptions const& options, detail::RowStorage storage) {
    check_max_bin(options);
    if (!options.weight.empty() || !options.group.empty() || !options.categorical.empty()) {
      throw Error{Errc::invalid_config, "DMatrixOptions::max_bin",
                  fmt::format("is {}, and there is a weight, a group or a categorical feature", options.max_bin),
                  "write 0"};
    }
    bool const hides_value = storage == detail::RowStorage::with_gaps;
    int passes = 0;
    auto const whole = hides_value ? std::nullopt : column_as_it_is(table);
    auto const most = whole ? table.rows() : std::min(table.rows(), most_batch_rows);
    std::vector<float> values;
    auto const batch = [&](std::size_t first) {
      if (whole) return *whole;
      auto const count = std::min(most, table.rows() - first);
      values = table.row_major<float>(first, count);
      if (hides_value && first == 0) detail::hide_value(values, names_.size(), passes++);
      return detail::array_interface(values.data(), "<f4", {count, names_.size()});
    };
    detail::TableBatches batches{{table.rows(), most}, batch};
    handle_.reset(detail::new_quantile_matrix(batches, config(options)));
    bins_ = std::make_shared<detail::MatrixBins>(
        detail::MatrixBins{options.max_bin, names_, detail::feature_types(table.is_categorical())});
  }

  void describe_features(std::vector<std::string> const& types) {
    detail::set_matrix_texts(handle(), "feature_name", names_);
    detail::set_matrix_texts(handle(), "feature_type", types);
  }

  template <class T>
  void set_numbers(char const* field, std::span<T const> values) {
    detail::set_matrix_numbers(handle(), field, values);
  }

  [[nodiscard]] auto info(char const* field) const -> std::span<float const> {
    bst_ulong count = 0;
    float const* values = nullptr;
    detail::xgboost_call(XGDMatrixGetFloatInfo(handle(), field, &count, &values), "XGDMatrixGetFloatInfo");
    return {values, count};
  }

  std::vector<std::string> names_;
  std::shared_ptr<detail::MatrixBins> bins_;
  detail::OwnedDMatrix handle_;
};

}  // namespace raytrain
