// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>

namespace raytrain::detail {

/// What a checkpoint has of its run's preprocessor.
struct CheckpointedPreprocessor {
  static constexpr std::string_view file_name = "raytrain_preprocessor.json";

  AnyPreprocessor asked{};   ///< As `TrainerConfig::preprocessor` is.
  AnyPreprocessor fitted{};  ///< With what it has learnt.

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(asked), CEREAL_NVP(fitted));
  }
};

/// The same as JSON, of whose types the program may know none.
struct PreprocessorDocument {
  std::string what{};  ///< What errors call it.
  JsonValue json{};

  /// Errors: `not_found` where the checkpoint's run had no preprocessor; `corrupt_checkpoint`, `io`; `invalid_data`.
  explicit PreprocessorDocument(Checkpoint const& checkpoint);

  /// The types that the run was asked to train with, as `preprocessor_types` gives them.
  [[nodiscard]] auto asked_types() const -> std::vector<std::string>;

  /// Knows the types that the program has registered, or has held in an `AnyPreprocessor`.
  ///
  /// Errors: as `preprocessor_from_json`.
  [[nodiscard]] auto read() const -> CheckpointedPreprocessor;
};

/// The names of the types in the JSON of a preprocessor: its own, and then those of the preprocessors within it.
[[nodiscard]] auto preprocessor_types(JsonValue const& json) -> std::vector<std::string>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/checkpointed_preprocessor-inl.hpp>
#endif
