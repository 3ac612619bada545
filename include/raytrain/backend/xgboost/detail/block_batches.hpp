// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xgboost/c_api.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/backend/boosting/detail/block_rows.hpp>
#include <raytrain/backend/boosting/detail/feature_table.hpp>
#include <raytrain/backend/xgboost/detail/array_interface.hpp>
#include <raytrain/backend/xgboost/detail/matrix_bins.hpp>
#include <raytrain/backend/xgboost/detail/row_batches.hpp>
#include <raytrain/backend/xgboost/detail/xgboost_library.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset_blocks.hpp>

namespace raytrain::detail {

/// Rows of blocks, of which one is in memory at a time; they are made anew each time that XGBoost begins with the first
/// row.
///
/// After an error XGBoost gets batches of the sizes that it knows, without what they held, to the end of what it does:
/// it must not read behind what it has, and other workers wait for this one in the middle of that.
class BlockBatches final : public RowBatches {
 public:
  /// `missing`: as `DMatrixOptions`. `reference`: bins that the rows get; null: bins of their own. Takes the first
  /// block with rows.
  ///
  /// Errors: as `BlockRows`; as `MatrixBins::check_fit` of the reference.
  BlockBatches(MakeBlocks make, FeatureTable::Roles roles, float missing, MatrixBins const* reference)
      : rows_{std::move(make), std::move(roles), "DMatrix"},
        types_{feature_types(rows_.is_categorical())},
        missing_{missing},
        largest_categories_(names().size(), -1) {
    if (reference == nullptr) return;
    reference->check_fit(names(), types());
    known_categories_ = reference->largest_categories;
  }

  /// Of the features.
  [[nodiscard]] auto names() const noexcept -> std::vector<std::string> const& { return rows_.names(); }
  /// As XGBoost calls each feature's type.
  [[nodiscard]] auto types() const noexcept -> std::vector<std::string> const& { return types_; }

  /// One for each feature, -1 of numbers, when XGBoost has gone through the rows.
  [[nodiscard]] auto largest_categories() const noexcept -> std::vector<float> const& { return largest_categories_; }
  /// As `BlockRows::rows_digest`, when XGBoost has gone through the rows.
  [[nodiscard]] auto rows_digest() const -> std::uint64_t { return rows_.rows_digest(); }

  /// Before a matrix is made of the rows, the first or another one.
  void begin(RowStorage storage) noexcept {
    reset();
    storage_ = storage;
    passes_ = 0;
  }

  void reset() noexcept override {
    if (next_ > 0) {
      is_first_pass_ = false;
      ++passes_;
    }
    next_ = 0;
    rows_.rewind();
  }

  auto next(DMatrixHandle proxy) noexcept -> bool override {
    try {
      if (!error()) {
        if (!rows_.next()) return false;
        if (is_first_pass_) {
          check_values();
          sizes_.push_back(rows_.rows());
        }
        ++next_;
        hand_over(proxy, {.values = values(), .labels = rows_.labels(), .weights = rows_.weights()});
        return true;
      }
    } catch (...) {
      keep_error();
    }
    try {
      return stand_in(proxy);
    } catch (...) {
      return false;
    }
  }

 private:
  /// Notes whether a value is missing. XGBoost would refuse one that is infinite in the middle of what it does.
  void check_values() {
    auto const values = rows_.values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto const value = values[i];
      if (std::isnan(value) || value == missing_) {
        has_missing_ = true;
      } else if (std::isinf(value)) {
        refuse(fmt::format("row {} of the feature '{}' is {}", row_of(i), names()[i % names().size()], value),
               "write NaN where there is no value");
      }
    }
    for (std::size_t feature = 0; feature < names().size(); ++feature) {
      if (rows_.is_categorical()[feature]) check_categories(feature);
    }
  }

  /// XGBoost would refuse a negative one in the middle of what it does, and take one that its bins do not know for
  /// another one.
  void check_categories(std::size_t feature) {
    constexpr float most = 1U << 24U;  // of which a float has each
    auto const values = rows_.values();
    auto& largest = largest_categories_[feature];
    for (auto i = feature; i < values.size(); i += names().size()) {
      auto const category = values[i];
      if (std::isnan(category) || category == missing_) continue;
      auto const text = [&] {
        return fmt::format("row {} of the categorical feature '{}' is {}", row_of(i), names()[feature], category);
      };
      if (category < 0 || category >= most) refuse(text(), "number categories from 0 on");
      if (!known_categories_.empty() && category > known_categories_[feature]) {
        refuse(fmt::format("{}, and the largest one of the reference is {}", text(), known_categories_[feature]),
               "write NaN for categories that the rows to train on do not have, or give a dataset without bins");
      }
      largest = std::max(largest, category);
    }
  }

  /// Of the batch's value `i`.
  [[nodiscard]] auto row_of(std::size_t i) const -> std::size_t { return rows_.first_row() + i / names().size(); }

  [[noreturn]] static void refuse(std::string happened, std::string remedy) {
    throw Error{Errc::invalid_data, "DMatrix", std::move(happened), std::move(remedy)};
  }

  /// Of the batch, as XGBoost is to see them.
  [[nodiscard]] auto values() -> std::span<float const> {
    auto const values = rows_.values();
    if (storage_ == RowStorage::as_they_are || next_ > 1) return values;
    changed_.assign(values.begin(), values.end());
    hide_value(changed_, names().size(), passes_);
    return changed_;
  }

  /// Gives what stands for the next batch after an error; false behind the last one. With missing values only where
  /// there were some: XGBoost keeps rows in another way where it has seen none.
  auto stand_in(DMatrixHandle proxy) -> bool {
    if (is_first_pass_ && sizes_.empty()) {  // XGBoost can take all but no batch
      sizes_.push_back(1);
    } else if (is_first_pass_ || next_ == sizes_.size()) {
      return false;
    }
    auto const rows = sizes_[next_++];
    changed_.assign(rows * names().size(), has_missing_ ? std::numeric_limits<float>::quiet_NaN() : 0.0F);
    std::vector<float> const labels(rows_.roles().label.empty() ? 0 : rows, 0.0F);
    std::vector<float> const weights(rows_.roles().weight.empty() ? 0 : rows, 1.0F);
    hand_over(proxy, {.values = changed_, .labels = labels, .weights = weights});
    return true;
  }

  struct Rows {
    std::span<float const> values;   ///< Row after row.
    std::span<float const> labels;   ///< Empty: they have none.
    std::span<float const> weights;  ///< Likewise.
  };

  void hand_over(DMatrixHandle proxy, Rows const& rows) const {
    auto const width = names().size();
    auto const table = array_interface(rows.values.data(), "<f4", {rows.values.size() / width, width});
    xgboost_call(XGProxyDMatrixSetDataDense(proxy, table.c_str()), "XGProxyDMatrixSetDataDense");
    if (!rows.labels.empty()) set_matrix_numbers(proxy, "label", rows.labels);
    if (!rows.weights.empty()) set_matrix_numbers(proxy, "weight", rows.weights);
    if (!rows_.roles().categorical.empty()) set_matrix_texts(proxy, "feature_type", types_);
  }

  BlockRows<float> rows_;
  std::vector<std::string> types_;
  float missing_;
  std::vector<float> largest_categories_;  ///< As `largest_categories`, as far as they were read.
  std::vector<float> known_categories_;    ///< The largest one of each feature of the reference; empty: none.
  RowStorage storage_ = RowStorage::as_they_are;
  int passes_ = 0;                  ///< That XGBoost has ended, of the matrix at hand.
  std::vector<std::size_t> sizes_;  ///< Of the batches that XGBoost has got at first.
  std::size_t next_ = 0;            ///< Batch that it gets next.
  bool is_first_pass_ = true;
  bool has_missing_ = false;    ///< Any of the values, as far as they were read.
  std::vector<float> changed_;  ///< What XGBoost reads of a batch where it does not read the rows themselves.
};

}  // namespace raytrain::detail
