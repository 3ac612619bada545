// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <raytrain/backend/torch/model_options.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE auto to_string(Overlap overlap) noexcept -> std::string_view {
  switch (overlap) {
    case Overlap::off: return "off";
    case Overlap::on: return "on";
    case Overlap::measured: return "measured";
  }
  return "unknown";
}

RAYTRAIN_TORCH_INLINE auto overlap_named(std::string_view name) -> Overlap {
  for (auto const overlap : {Overlap::off, Overlap::on, Overlap::measured}) {
    if (name == to_string(overlap)) return overlap;
  }
  throw Error{Errc::invalid_config, "an overlap", "must be off, on or measured (got '" + std::string{name} + "')",
              "write one of these"};
}

RAYTRAIN_TORCH_INLINE void ModelOptions::validate() const {
  if (bucket_bytes == 0) {
    throw Error{Errc::invalid_config, "ModelOptions::bucket_bytes", "must be at least 1 (got 0)",
                "leave it out for 1 MiB; with 1 each parameter is a bucket"};
  }
  if (overlap != Overlap::off && exchange != nullptr && !exchange->allows_overlap()) {
    throw Error{Errc::invalid_config, "ModelOptions::overlap",
                "must be off with the exchange " + exchange->description() + ", which does not allow it",
                "leave it out, or override GradientExchange::allows_overlap(), where its rules can be kept"};
  }
}

}  // namespace raytrain
