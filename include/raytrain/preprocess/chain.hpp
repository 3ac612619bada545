// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

namespace raytrain {

/// Preprocessors one after the other: each learns from what those before it make of the rows, also one that is fitted
/// already.
///
///     Chain prep{SimpleImputer{{"age"}}, StandardScaler{{"age", "hours"}}, OneHotEncoder{{"city"}}};
class Chain {
 public:
  static constexpr std::string_view type_name = "Chain";

  /// Changes nothing.
  Chain() = default;

  template <class... P>
  requires(sizeof...(P) > 1 || !(std::same_as<std::remove_cvref_t<P>, Chain> && ...)) &&
      (std::convertible_to<P, AnyPreprocessor> && ...)  //
      explicit Chain(P... steps)
      : steps_{AnyPreprocessor{std::move(steps)}...} {}

  /// Of steps that are known at run time only.
  explicit Chain(std::vector<AnyPreprocessor> steps) : steps_{std::move(steps)} {}

  [[nodiscard]] auto steps() const noexcept -> std::vector<AnyPreprocessor> const& { return steps_; }

  /// The first step of that type: `chain.step<LabelEncoder>().inverse_transform(predictions)`.
  ///
  /// Errors: `not_found` where there is none.
  template <Preprocessor P>
  [[nodiscard]] auto step() const -> P const& {
    for (auto const& any : steps_) {
      if (any.type_name() == P::type_name) return any.as<P>();
    }
    throw Error{Errc::not_found, "Chain::step", "no step is a " + std::string{P::type_name}, "ask for one that it has"};
  }

  /// Each step.
  ///
  /// Errors: as of the steps.
  /// Cost:   the steps before one that learns from the rows make them anew for it, block by block; all at once for
  ///         quantiles and powers, in the memory of this worker's part of the rows. Steps behind the last one that
  ///         learns see the columns alone.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool;
  /// Whether any of the steps does.
  [[nodiscard]] auto learns_from_rows() const -> bool;
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;
  /// From the last step to the first. Where a step has no way back, as a `Concatenator`, one that has is asked alone:
  /// `chain.step<LabelEncoder>().inverse_transform(predictions)`.
  ///
  /// Errors: as of the steps; `invalid_call` where one has no way back.
  [[nodiscard]] auto inverse_transform(Dataset const& dataset) const -> Dataset;

  template <class A>
  void serialize(A& a) {
    a(cereal::make_nvp("steps", steps_));
  }

 private:
  std::vector<AnyPreprocessor> steps_{};
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/chain-inl.hpp>
#endif
