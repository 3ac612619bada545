// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// The workers to which one of XGBoost 1.7 or 2.0 connects: its neighbours in a binary tree, along which XGBoost sums
/// small arrays, and in a ring in rank order, along which it sums large ones.
struct RabitLinks {
  std::int32_t parent = -1;            ///< -1 for the tree's root.
  std::vector<std::int32_t> tree{};    ///< Parent and children.
  std::int32_t previous = -1;          ///< In the ring; -1 where it is alone.
  std::int32_t next = -1;              ///< In the ring; -1 where it is alone.
  std::set<std::int32_t> everybody{};  ///< All of these.
};

[[nodiscard]] inline auto rabit_links(Rank rank, WorldSize world) -> RabitLinks {
  auto const own = static_cast<std::int32_t>(rank.value);
  auto const size = static_cast<std::int32_t>(world.value);
  RabitLinks links;
  if (own > 0) {
    links.parent = (own - 1) / 2;
    links.tree.push_back(links.parent);
  }
  for (auto const child : {2 * own + 1, 2 * own + 2}) {
    if (child < size) links.tree.push_back(child);
  }
  links.everybody.insert(links.tree.begin(), links.tree.end());
  if (size > 1) {
    links.previous = (own + size - 1) % size;
    links.next = (own + 1) % size;
    links.everybody.insert({links.previous, links.next});
  }
  return links;
}

}  // namespace raytrain::detail
