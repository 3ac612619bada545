// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/preprocess/checkpointed_preprocessor.hpp>

namespace raytrain::detail {

/// Calls `read` with the text of the checkpoint's preprocessor and what errors call it.
template <class Read>
[[nodiscard]] auto with_preprocessor_text(Checkpoint const& checkpoint, Read const& read) {
  auto const location = checkpoint.location();
  if (!checkpoint.contains(CheckpointedPreprocessor::file_name)) {
    throw Error{Errc::not_found, "the preprocessor of " + location, "there is none: its run had no preprocessor",
                "take a checkpoint of a run with TrainerConfig::preprocessor"};
  }
  auto const content = checkpoint.view(CheckpointedPreprocessor::file_name);
  return read(text_of(content.view()), fmt::format("{} of {}", CheckpointedPreprocessor::file_name, location));
}

RAYTRAIN_INLINE auto read_preprocessor(Checkpoint const& checkpoint) -> CheckpointedPreprocessor {
  return with_preprocessor_text(checkpoint, [](std::string_view text, std::string const& what) {
    return read_json<CheckpointedPreprocessor>(text, what);
  });
}

RAYTRAIN_INLINE auto asked_type_name(Checkpoint const& checkpoint) -> std::string {
  return with_preprocessor_text(checkpoint, [](std::string_view text, std::string const& what) {
    auto const document = parse_json(text, what);
    auto const member = [](JsonValue const* value, std::string_view name) -> JsonValue const* {
      auto const* const object = value == nullptr ? nullptr : value->get_if<JsonObject>();
      if (object == nullptr) return nullptr;
      auto const found = std::ranges::find(*object, name, &JsonMember::name);
      return found == object->end() ? nullptr : &found->value;
    };
    auto const* const type = member(member(&document, "asked"), "type");
    auto const* const name = type == nullptr ? nullptr : type->get_if<std::string>();
    if (name != nullptr) return *name;
    throw Error{Errc::invalid_data, "reading " + what, "asked.type is missing, or no text",
                "take another checkpoint, or begin anew by Resume::fresh"};
  });
}

}  // namespace raytrain::detail
