// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/config/checkpoint_source.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/train/detail/resume_point.hpp>

namespace raytrain::detail {

inline constexpr auto source_setting = "RunConfig::resume_from_checkpoint";

/// The error in the setting's name.
[[noreturn]] RAYTRAIN_INLINE void refuse_source(Error const& error) {
  throw Error{error.code(), source_setting, error.attempted() + ": " + error.happened(),
              error.remedy().empty() ? "name one that is whole, or leave it unset" : error.remedy()};
}

RAYTRAIN_INLINE auto open_source(CheckpointSource const& source) -> std::optional<Checkpoint> {
  if (source.names_none()) return std::nullopt;
  if (source.checkpoint() != nullptr) return *source.checkpoint();
  auto const opened = [&] {
    try {
      return Checkpoint::from_directory(source.folder());
    } catch (Error const& error) {
      refuse_source(error);
    }
  }();
  if (opened.number().value > 0) return opened;
  throw Error{
      Errc::corrupt_checkpoint, source_setting,
      "'" + opened.location() + "' has no manifest.json, without which nobody knows what should be in it",
      "name a folder in which a run has committed a checkpoint, as runs/NAME/checkpoints/checkpoint_000012; or, "
      "for files of your own, write Checkpoint::from_directory(folder)"};
}

RAYTRAIN_INLINE auto verified_source(CheckpointSource const& source) -> std::optional<Checkpoint> {
  auto checkpoint = open_source(source);
  try {
    if (checkpoint) checkpoint->verify();
  } catch (Error const& error) {
    refuse_source(error);
  }
  return checkpoint;
}

RAYTRAIN_INLINE auto location_of(CheckpointSource const& source) -> std::string {
  if (source.names_none()) return {};
  if (source.checkpoint() != nullptr) return source.checkpoint()->location();
  return std::filesystem::absolute(source.folder()).lexically_normal().string();
}

RAYTRAIN_INLINE auto source_text(CheckpointSource const& source) -> std::string {
  if (source.names_none()) return "not set";
  auto const location = "'" + location_of(source) + "'";
  try {
    auto const checkpoint = open_source(source);
    if (checkpoint->number().value == 0) return location;
    return location + ", checkpoint " + std::to_string(checkpoint->number().value) + " of the run '" +
           checkpoint->run_id() + "', after report " + std::to_string(checkpoint->training_iteration());
  } catch (Error const& error) {
    return location + ", which cannot be opened (" + error.happened() + ")";
  }
}

RAYTRAIN_INLINE void ResumePoint::find(std::optional<CheckpointNumber> kept) {
  other_.reset();
  auto const on_skipped = [&](CheckpointNumber number, std::string const& location, std::string_view reason) {
    skipped_.insert(number);
    if (told_.insert(number).second) warnings_.push_back("skipped " + location + ": " + std::string{reason});
  };
  own_ = store_.newest_valid(on_skipped, kept);
  forget_what_is_whole_again();
  if (own_) return warn_of_older_one_of_this_run();
  other_ = verified_source(source_);
}

RAYTRAIN_INLINE void ResumePoint::forget_what_is_whole_again() {
  auto const there = store_.numbers();
  std::erase_if(skipped_, [&](CheckpointNumber number) { return std::ranges::find(there, number) == there.end(); });
  // Where one was brought back, perhaps others were.
  if (!own_ || skipped_.erase(own_->number()) == 0) return;
  std::erase_if(skipped_, [&](CheckpointNumber number) {
    try {
      store_.open(number).verify();
      return true;
    } catch (Error const&) {
      return false;
    }
  });
}

RAYTRAIN_INLINE void ResumePoint::warn_of_older_one_of_this_run() {
  if (warned_of_source_ || source_.names_none()) return;
  try {
    auto const named = open_source(source_);
    if (named->run_id().empty() || named->run_id() != own_->run_id() || named->number() == own_->number()) return;
    warned_of_source_ = true;
    warnings_.push_back(std::string{source_setting} + " names checkpoint " + std::to_string(named->number().value) +
                        " of this run itself, which goes on from " + std::to_string(own_->number().value) +
                        ", its newest; to begin at the other one, choose another RunConfig::name");
  } catch (Error const&) {
    return;  // it is not needed any more
  }
}

RAYTRAIN_INLINE auto ResumePoint::whole_checkpoints() const -> std::vector<Checkpoint> {
  auto checkpoints = store_.list();
  std::erase_if(checkpoints, [&](Checkpoint const& checkpoint) { return skipped_.contains(checkpoint.number()); });
  return checkpoints;
}

}  // namespace raytrain::detail
