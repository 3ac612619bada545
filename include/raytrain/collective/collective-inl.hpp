// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <raytrain/collective/collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto Collective::duplicate() -> std::unique_ptr<Collective> {
  throw Error{Errc::invalid_call, "Collective::duplicate", "this model of a collective has no duplicates",
              "use one that has them: LocalCollective, SharedMemoryCollective or MpiCollective"};
}

}  // namespace raytrain
