// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// Makes rows of rows, each by itself and in its place. A lambda without captures is one.
using DatasetFunction = Dataset (*)(Dataset const&);

/// Lets `FunctionTransformer` call a function by a name, in each program that fits, loads or uses one: called before,
/// and again as often as you like.
///
/// Threads: any.
/// Errors:  `invalid_call` for an empty name or no function, and where another function has the name.
void register_function(std::string_view name, DatasetFunction function);

/// Calls a function of the program's own. Only the name is stored.
///
///     raytrain::register_function("log_income", [](Dataset const& rows) { return rows.with_column(...); });
///     Chain prep{FunctionTransformer{"log_income"}, StandardScaler{{"income"}}};
struct FunctionTransformer {
  static constexpr std::string_view type_name = "FunctionTransformer";

  std::string function{};  ///< A name that `register_function` was given.

  /// Learns nothing. Errors: `not_found` for a name that no function has, listing those that there are.
  void fit(FitRows const& rows);
  [[nodiscard]] static auto is_fitted() -> bool { return true; }
  /// Errors: `not_found` for a name that no function has; as of the function.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(function));
  }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/function_transformer-inl.hpp>
#endif
