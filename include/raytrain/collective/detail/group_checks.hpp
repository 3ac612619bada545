// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

// What groups and the places in them are refused for; `name` is the class. Errors: `invalid_call`.

auto checked_size(char const* name, WorldSize size, std::uint32_t largest) -> WorldSize;

template <class Group>
auto checked_group(char const* name, std::shared_ptr<Group> group) -> std::shared_ptr<Group> {
  if (group != nullptr) return group;
  throw Error{Errc::invalid_call, name, "needs a group (got null)"};
}

/// The group, if there is one and it has such a rank.
template <class Group>
auto checked_group(char const* name, std::shared_ptr<Group> group, Rank rank) -> std::shared_ptr<Group> {
  group = checked_group(name, std::move(group));
  if (rank.value < group->size().value) return group;
  throw Error{
      Errc::invalid_call, name,
      "rank must be below " + std::to_string(group->size().value) + " (got " + std::to_string(rank.value) + ")"};
}

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/group_checks-inl.hpp>
#endif
