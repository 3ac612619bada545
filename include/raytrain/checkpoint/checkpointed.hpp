// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>

namespace raytrain {

/// What has a file of its own in a checkpoint: a schedule of learning rates, `EarlyStopping`, an `AveragedModel`, or a
/// class of the program's.
///
/// What the compiler cannot check, every model promises: `load_from` reads what `add_to` has written, and throws an
/// `Error` for that of another kind.
template <class T>
concept Checkpointed = requires(T& value, T const& view, CheckpointDraft& draft, Checkpoint const& checkpoint) {
  /// Copies the state: it may change as soon as this returns.
  { view.add_to(draft) } -> std::same_as<void>;

  /// What a person should know of: a setting that is another one now. Empty otherwise.
  { value.load_from(checkpoint) } -> std::same_as<std::string>;
};

}  // namespace raytrain
