// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
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

RAYTRAIN_TORCH_INLINE void ModelOptions::validate(std::uint32_t virtual_shards) const {
  if (bucket_bytes == 0) {
    throw Error{Errc::invalid_config, "ModelOptions::bucket_bytes", "must be at least 1 (got 0)",
                "leave it out for 1 MiB; with 1 each parameter is a bucket"};
  }
  if (overlap == Overlap::on && exchange != nullptr && !exchange->allows_overlap()) {
    throw Error{Errc::invalid_config, "ModelOptions::overlap",
                "cannot be on with the exchange " + exchange->description() + ", which does not allow it",
                "leave it out, or override GradientExchange::allows_overlap(), where its rules can be kept"};
  }
  if (virtual_shards == 0) return;
  auto const refuse = [=](char const* option, std::string_view given) {
    throw Error{Errc::invalid_config, option,
                fmt::format("was given ({}) in a run of {} virtual shards, whose gradients are added one by one in the "
                            "order of shards, for the same bits with any number of workers",
                            given, virtual_shards),
                "leave it out, or ScalingConfig::virtual_shards"};
  };
  if (exchange != nullptr) refuse("ModelOptions::exchange", exchange->description());
  if (overlap == Overlap::on) refuse("ModelOptions::overlap", to_string(overlap));
  if (!broadcast_buffers) refuse("ModelOptions::broadcast_buffers", "false");
}

}  // namespace raytrain
