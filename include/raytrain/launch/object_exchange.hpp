// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/message/object_bytes.hpp>

namespace raytrain::detail {

/// Root's bytes, on every rank. Two operations: how many, and these.
[[nodiscard]] auto broadcast_bytes(Collective& collective, Bytes bytes, Rank root) -> Bytes;

/// Every rank's bytes, in rank order. Two operations: how many each has, and these.
[[nodiscard]] auto all_gather_bytes(Collective& collective, Bytes mine) -> std::vector<Bytes>;

/// Root's value, on every rank: as `broadcast_bytes`.
template <Transferable T>
[[nodiscard]] auto broadcast_object(Collective& collective, T value, Rank root) -> T {
  bool const is_root = collective.rank() == root;
  auto const bytes = broadcast_bytes(collective, is_root ? to_bytes(value) : Bytes{}, root);
  return is_root ? std::move(value) : from_bytes<T>(bytes);
}

/// Every rank's value, in rank order: as `all_gather_bytes`.
template <Transferable T>
[[nodiscard]] auto all_gather_objects(Collective& collective, T const& value) -> std::vector<T> {
  std::vector<T> values;
  for (auto const& bytes : all_gather_bytes(collective, to_bytes(value))) values.push_back(from_bytes<T>(bytes));
  return values;
}

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/object_exchange-inl.hpp>
#endif
