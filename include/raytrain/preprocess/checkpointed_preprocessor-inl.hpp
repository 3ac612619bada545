// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/preprocess/checkpointed_preprocessor.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE PreprocessorDocument::PreprocessorDocument(Checkpoint const& checkpoint) {
  auto const location = checkpoint.location();
  if (!checkpoint.contains(CheckpointedPreprocessor::file_name)) {
    throw Error{Errc::not_found, "the preprocessor of " + location, "there is none: its run had no preprocessor",
                "take a checkpoint of a run with TrainerConfig::preprocessor"};
  }
  what = fmt::format("{} of {}", CheckpointedPreprocessor::file_name, location);
  auto const content = checkpoint.view(CheckpointedPreprocessor::file_name);
  json = parse_json(text_of(content.view()), what);
}

/// Adds the types of all preprocessors within the JSON, from the outside to the inside.
// NOLINTNEXTLINE(misc-no-recursion)
inline void add_preprocessor_types(JsonValue const& json, std::vector<std::string>& types) {
  if (auto const* const array = json.get_if<JsonArray>()) {
    for (auto const& element : *array) add_preprocessor_types(element, types);
  }
  auto const* const object = json.get_if<JsonObject>();
  if (object == nullptr) return;
  auto const member = [&](std::string_view name) -> JsonValue const* {
    auto const found = std::ranges::find(*object, name, &JsonMember::name);
    return found == object->end() ? nullptr : &found->value;
  };
  // As `PreprocessorState` has it.
  auto const* const type = member("type");
  auto const* const name = type == nullptr ? nullptr : type->get_if<std::string>();
  if (name != nullptr && member("version") != nullptr && member("state") != nullptr) types.push_back(*name);
  for (auto const& [_, value] : *object) add_preprocessor_types(value, types);
}

RAYTRAIN_INLINE auto preprocessor_types(JsonValue const& json) -> std::vector<std::string> {
  std::vector<std::string> types;
  add_preprocessor_types(json, types);
  return types;
}

RAYTRAIN_INLINE auto PreprocessorDocument::asked_types() const -> std::vector<std::string> {
  auto const* const object = json.get_if<JsonObject>();
  if (object == nullptr) return {};
  auto const asked = std::ranges::find(*object, "asked", &JsonMember::name);
  return asked == object->end() ? std::vector<std::string>{} : preprocessor_types(asked->value);
}

RAYTRAIN_INLINE auto PreprocessorDocument::read() const -> CheckpointedPreprocessor {
  CheckpointedPreprocessor result;
  JsonReader{what}.read(json, result);
  return result;
}

}  // namespace raytrain::detail
