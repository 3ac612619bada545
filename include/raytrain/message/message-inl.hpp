// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <variant>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto sender_of(WorkerMessage const& message) -> std::optional<Rank> {
  return std::visit(
      [](auto const& what) -> std::optional<Rank> {
        if constexpr (requires { what.error; }) {
          return what.error.rank;
        } else {
          return what.rank;
        }
      },
      message);
}

RAYTRAIN_INLINE auto attempt_of(WorkerMessage const& message) -> Attempt {
  return std::visit([](auto const& what) { return what.attempt; }, message);
}

}  // namespace raytrain
