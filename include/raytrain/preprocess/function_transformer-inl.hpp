// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <mutex>
#include <ranges>
#include <string>
#include <string_view>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/function_transformer.hpp>

namespace raytrain {

namespace detail {

struct DatasetFunctions {
  std::mutex mutex{};
  std::map<std::string, DatasetFunction, std::less<>> by_name{};
};

[[nodiscard]] inline auto dataset_functions() -> DatasetFunctions& {
  static DatasetFunctions functions;
  return functions;
}

[[nodiscard]] RAYTRAIN_INLINE auto find_function(std::string const& name, char const* attempted) -> DatasetFunction {
  auto& functions = dataset_functions();
  std::lock_guard const lock{functions.mutex};
  auto const found = functions.by_name.find(name);
  if (found != functions.by_name.end()) return found->second;
  throw Error{Errc::not_found, attempted,
              fmt::format("no function has the name '{}'; {}", to_utf8(name),
                          functions.by_name.empty()
                              ? "none is registered"
                              : fmt::format("there are {}", fmt::join(functions.by_name | std::views::keys, ", "))),
              "call raytrain::register_function before, in each program that uses the preprocessor"};
}

}  // namespace detail

RAYTRAIN_INLINE void register_function(std::string_view name, DatasetFunction function) {
  auto const refuse = [&](char const* happened, char const* remedy) {
    throw Error{Errc::invalid_call, fmt::format("register_function of '{}'", to_utf8(name)), happened, remedy};
  };
  if (name.empty() || !is_utf8(name)) refuse("the name is empty or not UTF-8", "name it, as \"log_income\"");
  if (function == nullptr) refuse("there is no function", "give it one");
  auto& functions = detail::dataset_functions();
  std::lock_guard const lock{functions.mutex};
  auto const [entry, is_new] = functions.by_name.try_emplace(std::string{name}, function);
  if (!is_new && entry->second != function) refuse("another function has this name", "give it a name of its own");
}

RAYTRAIN_INLINE void FunctionTransformer::fit(FitRows const& /*rows*/) {
  (void)detail::find_function(function, "FunctionTransformer::fit");
}

RAYTRAIN_INLINE auto FunctionTransformer::transform(Dataset const& dataset) const -> Dataset {
  return detail::find_function(function, "FunctionTransformer::transform")(dataset);
}

}  // namespace raytrain
