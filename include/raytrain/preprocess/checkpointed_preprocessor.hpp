// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/message/fields.hpp>
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

/// Knows the types that the program has registered, or has held in an `AnyPreprocessor`.
///
/// Errors: as `load_preprocessor`.
[[nodiscard]] auto read_preprocessor(Checkpoint const& checkpoint) -> CheckpointedPreprocessor;

/// The name of the type with which the run was asked to train, also where the program does not know it.
///
/// Errors: as `load_preprocessor`.
[[nodiscard]] auto asked_type_name(Checkpoint const& checkpoint) -> std::string;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/checkpointed_preprocessor-inl.hpp>
#endif
