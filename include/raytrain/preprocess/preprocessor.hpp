// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// What makes the columns that a model takes of those that were read: it learns from the rows of a training, and then
/// changes any rows in that way, whenever the model is used.
///
/// A struct of settings and of what was learnt from the rows, which its `serialize` names. Where it has a
/// `check_state() const`, that is called when it was read from JSON, and throws an `Error` for what no fit learns.
template <class P>
concept Preprocessor = std::copyable<P> && std::default_initializable<P> &&
    detail::HasFields<P> &&  // with names, by CEREAL_NVP, and types that `write_json` takes: goes into each checkpoint
    requires(P preprocessor, P const& fitted, FitRows const& rows, Dataset const& dataset) {
  { P::type_name } -> std::convertible_to<std::string_view>;  // "StandardScaler": what files call it
  { preprocessor.fit(rows) } -> std::same_as<void>;           // all workers call it together, and learn the same
  { fitted.is_fitted() } -> std::same_as<bool>;               // static, and true, only where there is nothing to learn
  { fitted.transform(dataset) } -> std::same_as<Dataset>;     // each row by itself, in its place; from any thread
};

/// One that gives back what it was given.
template <class P>
concept InvertiblePreprocessor = Preprocessor<P> && requires(P const& fitted, Dataset const& dataset) {
  { fitted.inverse_transform(dataset) } -> std::same_as<Dataset>;
};

namespace detail {

/// Whether `fit` needs rows. A type shows that it does not by a static `is_fitted`, which depends on nothing learnt, or
/// by a static `learns_names_alone` that is true; a `Chain` may then call its `fit` without rows.
template <Preprocessor P>
inline constexpr bool learns_from_rows = !requires {
  P::is_fitted();
};

template <Preprocessor P>
requires(P::learns_names_alone)  //
    inline constexpr bool learns_from_rows<P> = false;

/// Errors: `invalid_call` for one that has learnt nothing yet.
inline void check_fitted(bool is_fitted, std::string_view type_name, char const* function) {
  if (is_fitted) return;
  throw Error{Errc::invalid_call, std::string{type_name} + "::" + function, "it has not learnt from any rows yet",
              "call fit before, or load one that is fitted"};
}

}  // namespace detail

}  // namespace raytrain
