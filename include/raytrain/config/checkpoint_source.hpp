// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <filesystem>
#include <memory>
#include <type_traits>
#include <utility>

namespace raytrain {

class Checkpoint;

/// Names a checkpoint, or none: by its folder, or by a `Checkpoint` that is open.
class CheckpointSource {
 public:
  CheckpointSource() = default;

  /// A folder in which a run has committed a checkpoint; an empty path names none. A relative one counts from the
  /// folder in which the program makes its trainer.
  template <class P>
  requires(!std::same_as<std::remove_cvref_t<P>, CheckpointSource> && std::convertible_to<P, std::filesystem::path>)
      CheckpointSource(P&& folder)  // NOLINT(google-explicit-constructor)
      : folder_{std::forward<P>(folder)} {}

  /// Any other one, too: in a store of the program's own, or a folder that a person has filled. Each process of a job
  /// opens its own.
  template <std::same_as<Checkpoint> C>
  CheckpointSource(C checkpoint)  // NOLINT(google-explicit-constructor)
      : checkpoint_{std::make_shared<C const>(std::move(checkpoint))} {}

  [[nodiscard]] auto names_none() const noexcept -> bool { return folder_.empty() && checkpoint_ == nullptr; }
  /// Empty where it is named otherwise.
  [[nodiscard]] auto folder() const noexcept -> std::filesystem::path const& { return folder_; }
  /// Null where it is named otherwise.
  [[nodiscard]] auto checkpoint() const noexcept -> std::shared_ptr<Checkpoint const> const& { return checkpoint_; }

 private:
  std::filesystem::path folder_;
  std::shared_ptr<Checkpoint const> checkpoint_;
};

}  // namespace raytrain
