// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

namespace detail {

struct PreprocessorTypes {
  std::mutex mutex{};
  std::map<std::string, PreprocessorType, std::less<>> by_name{};
};

[[nodiscard]] inline auto known_preprocessor_types() -> PreprocessorTypes& {
  static PreprocessorTypes types;
  return types;
}

RAYTRAIN_INLINE void add_preprocessor_type(std::string_view name, PreprocessorType type) {
  auto& types = known_preprocessor_types();
  std::lock_guard const lock{types.mutex};
  auto const [entry, is_new] = types.by_name.try_emplace(std::string{name}, type);
  if (is_new || *entry->second.type == *type.type) return;
  throw Error{Errc::invalid_call, fmt::format("the preprocessor '{}'", name), "another type has this name",
              "give it a type_name of its own, which none of raytrain's has, either"};
}

RAYTRAIN_INLINE auto find_preprocessor_type(JsonValue const& json, JsonReader& reader) -> PreprocessorType {
  auto const* const object = json.get_if<JsonObject>();
  auto const member = [&]<class T>(std::string_view name, T const& nothing) -> T {
    if (object == nullptr) return nothing;
    auto const found = std::ranges::find(*object, name, &JsonMember::name);
    auto const* const value = found == object->end() ? nullptr : found->value.template get_if<T>();
    return value == nullptr ? nothing : *value;
  };
  auto const name = member("type", std::string{});
  auto& types = known_preprocessor_types();
  std::lock_guard const lock{types.mutex};
  auto const type = types.by_name.find(name);
  if (type == types.by_name.end()) {
    reader.refuse(
        json, fmt::format("a preprocessor of one of the types {}{}", fmt::join(types.by_name | std::views::keys, ", "),
                          name.empty() ? ""
                                       : fmt::format(", and is a '{}': call raytrain::register_preprocessor of "
                                                     "this type before",
                                                     name)));
  }
  auto const version = member("version", std::int64_t{0});
  if (std::cmp_greater(version, type->second.newest_version)) {
    reader.refuse(json, fmt::format("a {} of version {} at most, and is one of {}, by a newer program", name,
                                    type->second.newest_version, version));
  }
  return type->second;
}

}  // namespace detail

RAYTRAIN_INLINE auto AnyPreprocessor::held(char const* function) const -> Interface const& {
  if (held_) return *held_;
  throw Error{Errc::invalid_call, std::string{"AnyPreprocessor::"} + function, "it holds no preprocessor",
              "give it one: AnyPreprocessor{StandardScaler{{\"age\"}}}"};
}

RAYTRAIN_INLINE auto AnyPreprocessor::type_name() const -> std::string {
  return std::string{held("type_name").type_name()};
}

RAYTRAIN_INLINE auto AnyPreprocessor::is_fitted() const -> bool { return held("is_fitted").is_fitted(); }

RAYTRAIN_INLINE void AnyPreprocessor::fit(FitRows const& rows) { held_ = held("fit").fitted(rows); }

RAYTRAIN_INLINE auto AnyPreprocessor::transform(Dataset const& dataset) const -> Dataset {
  auto const& preprocessor = held("transform");
  detail::check_fitted(preprocessor.is_fitted(), preprocessor.type_name(), "transform");
  auto result = preprocessor.transform(dataset);
  if (result.rows() == dataset.rows()) return result;
  throw Error{Errc::invalid_call, std::string{preprocessor.type_name()} + "::transform",
              fmt::format("made {} rows of {}", result.rows(), dataset.rows()),
              "keep each row in its place; leave rows out before, by filter"};
}

RAYTRAIN_INLINE auto AnyPreprocessor::fit_transform(Dataset const& dataset) -> Dataset {
  fit(dataset);
  return transform(dataset);
}

RAYTRAIN_INLINE auto AnyPreprocessor::inverse_transform(Dataset const& dataset) const -> Dataset {
  auto const& preprocessor = held("inverse_transform");
  detail::check_fitted(preprocessor.is_fitted(), preprocessor.type_name(), "inverse_transform");
  return preprocessor.inverse_transform(dataset);
}

RAYTRAIN_INLINE void AnyPreprocessor::read_from_json(JsonValue const& json, detail::JsonReader& reader) {
  *this = detail::find_preprocessor_type(json, reader).read(json, reader);
}

}  // namespace raytrain
