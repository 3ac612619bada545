// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <xgboost/c_api.h>

#include <raytrain/backend/xgboost/xgboost_call.hpp>

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
