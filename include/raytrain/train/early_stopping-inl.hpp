// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/train/early_stopping.hpp>

namespace raytrain {

namespace detail {

/// What early_stopping.json holds.
struct StoredStopping {
  double best{};
  std::int64_t waited{};
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(best), CEREAL_NVP(waited));
  }
};

}  // namespace detail

RAYTRAIN_INLINE void EarlyStoppingConfig::validate() const {
  if (patience < 0) {
    throw Error{Errc::invalid_config, "EarlyStoppingConfig::patience",
                fmt::format("must not be negative (got {})", patience), "write {.patience = 3}, or 0 for never"};
  }
  if (!(min_delta >= 0) || std::isinf(min_delta)) {
    throw Error{Errc::invalid_config, "EarlyStoppingConfig::min_delta",
                fmt::format("must be finite and not negative (got {})", min_delta), "write {.min_delta = 0}"};
  }
}

RAYTRAIN_INLINE EarlyStopping::EarlyStopping(EarlyStoppingConfig config)
    : config_{config}, metric_{config.mode, config.min_delta} {
  config_.validate();
}

RAYTRAIN_INLINE void EarlyStopping::add_to(CheckpointDraft& draft, std::string const& file) const {
  draft.add(file, write_json(detail::StoredStopping{best(), waited()}));
}

RAYTRAIN_INLINE auto EarlyStopping::load_from(Checkpoint const& checkpoint, std::string const& file) -> std::string {
  auto const bytes = checkpoint.read(file);
  auto const path = checkpoint.location() + "/" + file;
  auto const stored = read_json<detail::StoredStopping>(text_of(bytes), path);
  if (stored.waited < 0) {
    throw Error{Errc::invalid_data, "reading " + path,
                fmt::format("'waited' must not be negative (got {})", stored.waited), "go on from another checkpoint"};
  }
  state()[0] = stored.best;
  state()[1] = static_cast<double>(stored.waited);
  return {};
}

}  // namespace raytrain
