// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <type_traits>
#include <variant>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto sender_of(Message const& message) -> std::optional<Rank> {
  return std::visit(
      [](auto const& what) -> std::optional<Rank> {
        if constexpr (requires { what.rank; } && !std::is_same_v<decltype(what), Left const&>) {
          return what.rank;
        } else {
          return std::nullopt;
        }
      },
      message);
}

}  // namespace raytrain
