// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xgboost/c_api.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/xgboost/detail/array_interface.hpp>
#include <raytrain/backend/xgboost/detail/xgboost_library.hpp>

namespace raytrain::detail {

/// Frees a matrix, or a proxy.
struct FreeDMatrix {
  void operator()(void* handle) const noexcept { XGDMatrixFree(handle); }
};
using OwnedDMatrix = std::unique_ptr<void, FreeDMatrix>;

/// `field`: "label" or "weight", one for each row of the matrix.
inline void set_matrix_numbers(DMatrixHandle matrix, char const* field, std::span<float const> values) {
  auto const array = array_interface(values.data(), "<f4", {values.size()});
  xgboost_call(XGDMatrixSetInfoFromInterface(matrix, field, array.c_str()), "XGDMatrixSetInfoFromInterface");
}

/// `field`: "group", whose values add up to the rows.
inline void set_matrix_numbers(DMatrixHandle matrix, char const* field, std::span<std::uint32_t const> values) {
  auto const array = array_interface(values.data(), "<u4", {values.size()});
  xgboost_call(XGDMatrixSetInfoFromInterface(matrix, field, array.c_str()), "XGDMatrixSetInfoFromInterface");
}

/// As XGBoost calls each feature's type: "c" of categories, "q" of numbers.
[[nodiscard]] inline auto feature_types(std::vector<bool> const& is_categorical) -> std::vector<std::string> {
  std::vector<std::string> types;
  for (bool const categorical : is_categorical) types.emplace_back(categorical ? "c" : "q");
  return types;
}

/// `field`: "feature_name" or "feature_type", one for each feature.
inline void set_matrix_texts(DMatrixHandle matrix, char const* field, std::vector<std::string> const& texts) {
  std::vector<char const*> pointers;
  for (auto const& text : texts) pointers.push_back(text.c_str());
  xgboost_call(XGDMatrixSetStrFeatureInfo(matrix, field, pointers.data(), pointers.size()),
               "XGDMatrixSetStrFeatureInfo");
}

/// How XGBoost is to keep rows.
enum class RowStorage : std::uint8_t {
  as_they_are,  ///< In less memory where no row lacks a value.
  with_gaps,    ///< As if a row lacked a value: other workers have such rows.
};

/// Makes XGBoost 1.7 keep rows of which none lacks a value as if one did, with the first batch's `values`, row by row.
///
/// XGBoost counts values when it goes through the rows for the first time, and makes bins the second time: it misses
/// one value then. Later it stores all of them. It is the first feature's smallest one: were that feature a category,
/// and its only row with the largest number, XGBoost would make no bin of it. `passes_before`: over the rows, of this
/// matrix.
inline void hide_value(std::span<float> values, std::size_t features, int passes_before) {
  if (passes_before > 1) return;
  std::size_t smallest = 0;
  for (std::size_t at = 0; at < values.size(); at += features) {
    if (values[at] < values[smallest]) smallest = at;
  }
  values[smallest] = std::numeric_limits<float>::quiet_NaN();
}

/// Rows that XGBoost goes through several times, a batch after the other.
class RowBatches {
 public:
  RowBatches() = default;
  RowBatches(RowBatches const&) = delete;
  auto operator=(RowBatches const&) -> RowBatches& = delete;
  virtual ~RowBatches() = default;

  /// Begins with the first batch again.
  virtual void reset() noexcept = 0;

  /// Gives the next batch to the proxy; false behind the last one. No exception may pass through XGBoost.
  virtual auto next(DMatrixHandle proxy) noexcept -> bool = 0;

  /// What went wrong meanwhile.
  [[nodiscard]] auto error() const noexcept -> std::exception_ptr const& { return error_; }

 protected:
  void keep_error() noexcept {
    if (!error_) error_ = std::current_exception();
  }

 private:
  std::exception_ptr error_;
};

/// A new matrix that holds the bins of all rows: those of `reference`, or of these rows where it is null.
///
/// Errors: what went wrong in the batches; `backend` with XGBoost's text.
[[nodiscard]] inline auto new_quantile_matrix(RowBatches& batches, std::string const& config,
                                              DMatrixHandle reference = nullptr) -> DMatrixHandle {
  struct Source {
    RowBatches& batches;
    OwnedDMatrix proxy;
  };
  Source source{batches, {}};
  DMatrixHandle made = nullptr;
  xgboost_call(XGProxyDMatrixCreate(&made), "XGProxyDMatrixCreate");
  source.proxy.reset(std::exchange(made, nullptr));
  auto const status = XGQuantileDMatrixCreateFromCallback(
      &source, source.proxy.get(), reference, [](DataIterHandle self) { static_cast<Source*>(self)->batches.reset(); },
      [](DataIterHandle self) -> int {
        auto const& from = *static_cast<Source*>(self);
        return from.batches.next(from.proxy.get()) ? 1 : 0;
      },
      config.c_str(), &made);
  OwnedDMatrix matrix{status == 0 ? made : nullptr};
  if (batches.error()) std::rethrow_exception(batches.error());
  xgboost_call(status, "XGQuantileDMatrixCreateFromCallback");
  return matrix.release();
}

/// Rows in memory.
class TableBatches final : public RowBatches {
 public:
  struct Size {
    std::size_t rows = 0;
    std::size_t batch_rows = 0;
  };
  /// Describes the batch that starts with a row, in the array interface, until it is called again.
  using Array = std::function<std::string(std::size_t first)>;

  TableBatches(Size size, Array array) : size_{size}, array_{std::move(array)} {}

  void reset() noexcept override { next_ = 0; }

  auto next(DMatrixHandle proxy) noexcept -> bool override {
    if (next_ >= size_.rows || error()) return false;
    try {
      auto const first = std::exchange(next_, next_ + size_.batch_rows);
      xgboost_call(XGProxyDMatrixSetDataDense(proxy, array_(first).c_str()), "XGProxyDMatrixSetDataDense");
      return true;
    } catch (...) {
      keep_error();
      return false;
    }
  }

 private:
  Size size_;
  Array array_;
  std::size_t next_ = 0;
};

}  // namespace raytrain::detail
