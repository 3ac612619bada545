// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <raytrain/backend/xgboost/detail/array_interface.hpp>
#include <raytrain/backend/xgboost/detail/xgboost_library.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain {

/// Rows of which few values are there, in compressed sparse row (CSR) form: what is not stored is missing, and not 0.
/// It owns nothing, and a `DMatrix` keeps a copy.
struct CsrRows {
  std::span<std::uint64_t const> indptr;     ///< Row i has the values from indptr[i] to before indptr[i + 1].
  std::span<std::uint32_t const> indices;    ///< Column of each value, from 0 on.
  std::span<float const> values;             ///< NaN: missing, too.
  std::size_t columns = 0;                   ///< Those included that have no value.
  std::span<float const> labels{};           ///< One for each row; empty: none, for prediction.
  std::span<float const> weights{};          ///< One for each row; empty: all 1.
  std::vector<std::string> feature_names{};  ///< One for each column; empty: XGBoost's own, f0, f1 and so on.

  [[nodiscard]] auto rows() const noexcept -> std::size_t { return indptr.empty() ? 0 : indptr.size() - 1; }

  /// Errors: `invalid_data`, naming the field and its value.
  void validate() const {
    auto const refuse = [](char const* field, std::string happened, char const* remedy) {
      throw Error{Errc::invalid_data, std::string{"CsrRows::"} + field, std::move(happened), remedy};
    };
    if (rows() == 0) refuse("indptr", "holds no row", "write 0 and, for each row, where its values end");
    if (columns == 0 || columns > std::numeric_limits<std::uint32_t>::max())
      refuse("columns", fmt::format("must be 1 to 2^32 - 1 (got {})", columns), "count all columns");
    if (indices.size() != values.size())
      refuse("indices", fmt::format("are {}, and there are {} values", indices.size(), values.size()),
             "give each value its column");
    if (indptr.front() != 0) refuse("indptr", fmt::format("begins with {}", indptr.front()), "begin with 0");
    auto const falls = std::ranges::is_sorted_until(indptr);
    if (falls != indptr.end())
      refuse("indptr", fmt::format("falls at {}, from {} to {}", falls - indptr.begin(), *(falls - 1), *falls),
             "write where the values of each row end");
    if (indptr.back() != values.size())
      refuse("indptr", fmt::format("ends with {}, and there are {} values", indptr.back(), values.size()),
             "end with the number of values");
    auto const outside = std::ranges::find_if(indices, [&](auto column) { return column >= columns; });
    if (outside != indices.end())
      refuse("indices",
             fmt::format("value {} is in column {}, and there are {}", outside - indices.begin(), *outside, columns),
             "count columns from 0");
    auto const each = [&](char const* field, std::size_t count, std::size_t wanted) {
      if (count != 0 && count != wanted)
        refuse(field, fmt::format("are {}, and must be {}", count, wanted), "give one for each, or none");
    };
    each("labels", labels.size(), rows());
    each("weights", weights.size(), rows());
    each("feature_names", feature_names.size(), columns);
  }
};

namespace detail {

/// XGBoost's copy of the values alone, which the caller frees. `threads`: to read them with; 0: as many as it likes.
///
/// Errors: as `CsrRows::validate`; `backend`.
[[nodiscard]] inline auto new_csr_matrix(CsrRows const& rows, int threads) -> DMatrixHandle {
  rows.validate();
  DMatrixHandle made = nullptr;
  xgboost_call(
      XGDMatrixCreateFromCSR(array_interface(rows.indptr.data(), "<u8", {rows.indptr.size()}).c_str(),
                             array_interface(rows.indices.data(), "<u4", {rows.indices.size()}).c_str(),
                             array_interface(rows.values.data(), "<f4", {rows.values.size()}).c_str(), rows.columns,
                             fmt::format(R"({{"missing": NaN, "nthread": {}}})", threads).c_str(), &made),
      "XGDMatrixCreateFromCSR");
  return made;
}

}  // namespace detail
}  // namespace raytrain
