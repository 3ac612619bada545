// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE void CheckpointConfig::validate() const {
  if (num_to_keep && *num_to_keep < 1) {
    throw Error{Errc::invalid_config, "CheckpointConfig::num_to_keep",
                "must be at least 1 (got " + std::to_string(*num_to_keep) + ")",
                "leave it unset to keep every checkpoint"};
  }
  auto const refuse_without_score = [&](char const* field, std::string const& value) {
    if (!score_attribute.empty()) return;
    throw Error{Errc::invalid_config, std::string{"CheckpointConfig::"} + field,
                "is " + value + ", and score_attribute names no metric",
                "name a metric, as .score_attribute = \"loss\", or leave " + std::string{field} + " out"};
  };
  if (score_order != ScoreOrder::max) refuse_without_score("score_order", "ScoreOrder::min");
  if (fail_on_non_finite_score) refuse_without_score("fail_on_non_finite_score", "set");
  if (every) every->validate();
  if (mode == CheckpointMode::sync && when_busy != WhenBusy::wait) {
    throw Error{Errc::invalid_config, "CheckpointConfig::when_busy",
                "must be WhenBusy::wait with CheckpointMode::sync, where no checkpoint is reported before the last one "
                "is committed",
                "leave one of the two as it is"};
  }
  if (write_retries < 0) {
    throw Error{Errc::invalid_config, "CheckpointConfig::write_retries",
                "must not be negative (got " + std::to_string(write_retries) + ")", "write 0 to try once"};
  }
  if (memory_copies < 0) {
    throw Error{Errc::invalid_config, "CheckpointConfig::memory_copies",
                "must not be negative (got " + std::to_string(memory_copies) + ")",
                "write 0 to keep nothing in memory"};
  }
}

}  // namespace raytrain
