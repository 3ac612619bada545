// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <raytrain/collective/detail/argument_checks.hpp>
#include <raytrain/collective/detail/call.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void ArgumentChecks::check_root(Rank root, Call const& call) const {
  if (root.value < size_.value) return;
  throw Error{Errc::invalid_call, attempted(call),
              "root must be below " + std::to_string(size_.value) + " (got " + std::to_string(root.value) + ")"};
}

RAYTRAIN_INLINE void ArgumentChecks::refuse_device_memory(Call const& call, char const* name) const {
  throw Error{Errc::invalid_call, attempted(call),
              std::string{name} + " must be in the host's memory (got memory of a GPU)",
              "copy it to the host, or use NcclCollective or DeviceCollective"};
}

RAYTRAIN_INLINE auto ArgumentChecks::attempted(Call const& call) const -> std::string {
  return to_string(call) + " on rank " + std::to_string(rank_.value);
}

}  // namespace raytrain::detail
