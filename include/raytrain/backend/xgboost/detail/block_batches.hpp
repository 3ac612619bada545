// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xgboost/c_api.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/backend/boosting/detail/feature_table.hpp>
#include <raytrain/backend/xgboost/detail/array_interface.hpp>
#include <raytrain/backend/xgboost/detail/row_batches.hpp>
#include <raytrain/backend/xgboost/detail/xgboost_library.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>

namespace raytrain::detail {

/// Rows of blocks, of which one is in memory at a time; they are made anew each time that XGBoost begins with the first
/// row.
///
/// After an error XGBoost gets batches of the sizes that it knows, without what they held, to the end of what it does:
/// it must not read behind what it has, and other workers wait for this one in the middle of that.
class BlockBatches final : public RowBatches {
 public:
  /// `missing`: as `DMatrixOptions`. Takes the first block with rows.
  ///
  /// Errors: as `FeatureTable`, of the first block; `invalid_data` for no rows; what the blocks' reader throws.
  BlockBatches(MakeBlocks make, FeatureTable::Roles roles, float missing)
      : make_{std::move(make)}, roles_{std::move(roles)}, missing_{missing} {
    begin_pass();
    if (!take_block()) refuse("there are no rows", "use fewer workers or more rows");
    names_ = table_->names();
    types_ = table_->feature_types();
    constexpr std::size_t most_values = std::size_t{4} << 20U;
    most_rows_ = std::clamp<std::size_t>(most_values / names_.size(), 1, 65536);
  }

  /// Of the features.
  [[nodiscard]] auto names() const noexcept -> std::vector<std::string> const& { return names_; }
  /// As `FeatureTable::feature_types`.
  [[nodiscard]] auto types() const noexcept -> std::vector<std::string> const& { return types_; }

  void reset() noexcept override {
    if (next_ == 0) return;  // the first block is there already
    next_ = 0;
    is_first_pass_ = false;
    table_.reset();
    blocks_.reset();
  }

  auto next(DMatrixHandle proxy) noexcept -> bool override {
    try {
      if (!error()) {
        if (!read()) return false;
        hand_over(proxy);
        return true;
      }
    } catch (...) {
      keep_error();
    }
    try {
      if (!stand_in()) return false;
      hand_over(proxy);
      return true;
    } catch (...) {
      return false;
    }
  }

 private:
  struct Batch {
    std::size_t rows;
    std::uint64_t digest;
  };

  [[noreturn]] static void refuse(std::string happened, std::string remedy) {
    throw Error{Errc::invalid_data, "DMatrix", std::move(happened), std::move(remedy)};
  }

  [[noreturn]] static void refuse_change(std::string happened) {
    throw Error{Errc::invalid_data, "DMatrix, reading the rows once more", std::move(happened),
                "let the function give the same blocks each time, and nobody change the files meanwhile"};
  }

  void begin_pass() {
    blocks_ = make_();
    blocks_->check_is_fresh("DMatrix, beginning with the first block");
    if (!first_) first_ = blocks_;
    first_->check_is_unchanged();  // which names a file
    if (blocks_->source() != first_->source())
      refuse_change(fmt::format("their source was {}, and is {}", first_->source(), blocks_->source()));
    first_row_ = 0;
    at_ = 0;
  }

  /// The next block that has rows; false behind the last one.
  auto take_block() -> bool {
    first_row_ += table_ ? table_->rows() : 0;
    table_.reset();
    at_ = 0;
    while (auto const block = blocks_->next()) {
      if (block->rows() == 0) continue;
      look_at(*block);
      if (names_.empty() || table_->names() == names_) return true;
      refuse(fmt::format("row {} has the features {}, and those before it have {}", first_row_,
                         fmt::join(table_->names(), ", "), fmt::join(names_, ", ")),
             "give all blocks the same columns");
    }
    return false;
  }

  void look_at(Dataset const& block) {
    try {
      table_.emplace(block, roles_, "DMatrix");
      labels_ = table_->labels();
      weights_ = table_->weights();
    } catch (Error const& error) {
      throw Error{error.code(), fmt::format("{} of {}", error.attempted(), rows_text(0, block.rows())),
                  error.happened(), error.remedy()};
    }
  }

  /// "rows 65536 to 131071", counted from the first block's first one.
  [[nodiscard]] auto rows_text(std::size_t from, std::size_t rows) const -> std::string {
    return fmt::format("rows {} to {}", first_row_ + from, first_row_ + from + rows - 1);
  }

  /// Makes the next batch; false behind the last one.
  auto read() -> bool {
    if (!blocks_) begin_pass();
    if ((!table_ || at_ == table_->rows()) && !take_block()) {
      if (next_ < batches_.size()) refuse_change(fmt::format("there are {} rows, and more at first", first_row_));
      return false;
    }
    auto const rows = std::min(most_rows_, table_->rows() - at_);
    values_ = table_->row_major<float>(at_, rows);
    if (is_first_pass_) {
      check_values();
      batches_.push_back({rows, digest(rows)});
    } else if (next_ == batches_.size() || batches_[next_].rows != rows || batches_[next_].digest != digest(rows)) {
      refuse_change(rows_text(at_, rows) + " are others than at first");
    }
    first_of_batch_ = at_;
    at_ += rows;
    ++next_;
    return true;
  }

  /// Notes whether a value is missing. XGBoost would refuse one that is infinite in the middle of what it does.
  void check_values() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      auto const value = values_[i];
      if (std::isnan(value) || value == missing_) {
        has_missing_ = true;
      } else if (std::isinf(value)) {
        refuse(fmt::format("row {} of the feature '{}' is {}", first_row_ + at_ + i / names_.size(),
                           names_[i % names_.size()], value),
               "write NaN where there is no value");
      }
    }
  }

  [[nodiscard]] auto digest(std::size_t rows) const -> std::uint64_t {
    auto const of = [](std::span<float const> values) { return xxh3_64_of(std::as_bytes(values)); };
    return of(values_) ^ std::rotl(of(batch_of(labels_, at_, rows)), 1) ^
           std::rotl(of(batch_of(weights_, at_, rows)), 2);
  }

  /// Empty of what is empty.
  [[nodiscard]] static auto batch_of(std::span<float const> of_rows, std::size_t first, std::size_t rows)
      -> std::span<float const> {
    return of_rows.empty() ? of_rows : of_rows.subspan(first, rows);
  }

  /// Makes what stands for the next batch after an error; false behind the last one. With missing values only where
  /// there were some: XGBoost keeps rows in another way where it has seen none.
  auto stand_in() -> bool {
    if (is_first_pass_ && batches_.empty()) {  // XGBoost can take all but no batch
      batches_.push_back({1, 0});
    } else if (is_first_pass_ || next_ == batches_.size()) {
      return false;
    }
    auto const rows = batches_[next_++].rows;
    values_.assign(rows * names_.size(), has_missing_ ? std::numeric_limits<float>::quiet_NaN() : 0.0F);
    labels_.assign(roles_.label.empty() ? 0 : rows, 0.0F);
    weights_.assign(roles_.weight.empty() ? 0 : rows, 1.0F);
    first_of_batch_ = 0;
    return true;
  }

  void hand_over(DMatrixHandle proxy) const {
    auto const rows = values_.size() / names_.size();
    xgboost_call(
        XGProxyDMatrixSetDataDense(proxy, array_interface(values_.data(), "<f4", {rows, names_.size()}).c_str()),
        "XGProxyDMatrixSetDataDense");
    if (!labels_.empty()) set_matrix_numbers(proxy, "label", batch_of(labels_, first_of_batch_, rows));
    if (!weights_.empty()) set_matrix_numbers(proxy, "weight", batch_of(weights_, first_of_batch_, rows));
    if (!roles_.categorical.empty()) set_matrix_texts(proxy, "feature_type", types_);
  }

  MakeBlocks make_;
  FeatureTable::Roles roles_;
  float missing_;
  std::vector<std::string> names_;
  std::vector<std::string> types_;
  std::size_t most_rows_ = 0;  ///< Of a batch.

  std::optional<DatasetBlocks> first_;  ///< Those that XGBoost took first.
  std::vector<Batch> batches_;          ///< What they were handed over as.
  bool is_first_pass_ = true;
  bool has_missing_ = false;  ///< Any of the values, as far as they were read.

  std::optional<DatasetBlocks> blocks_;  ///< Where XGBoost is; unset before its first block.
  std::size_t next_ = 0;                 ///< Batch of them.
  std::size_t first_row_ = 0;            ///< Of the block at hand.
  std::optional<FeatureTable> table_;    ///< The block at hand.
  std::vector<float> labels_;            ///< Of the block at hand.
  std::vector<float> weights_;           ///< Of the block at hand.
  std::size_t at_ = 0;                   ///< Rows of it that were handed over.
  std::size_t first_of_batch_ = 0;       ///< Row of it with which the batch begins.
  std::vector<float> values_;            ///< Of the batch's features, row by row.
};

}  // namespace raytrain::detail
