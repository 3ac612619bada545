// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <raytrain/collective/detail/group_checks.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto checked_size(char const* name, WorldSize size, std::uint32_t largest) -> WorldSize {
  if (size.value >= 1 && size.value <= largest) return size;
  throw Error{Errc::invalid_call, name,
              "needs from 1 to " + std::to_string(largest) + " workers (got " + std::to_string(size.value) + ")"};
}

}  // namespace raytrain::detail
