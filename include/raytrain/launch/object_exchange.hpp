// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/message/object_bytes.hpp>

namespace raytrain::detail {

/// As the collectives carry them.
auto as_elements(Bytes& bytes) noexcept -> std::span<std::uint8_t>;

/// Root's value, on every rank. Two operations: its size, its bytes.
template <Transferable T>
[[nodiscard]] auto broadcast_object(Collective& collective, T value, Rank root) -> T {
  bool const is_root = collective.rank() == root;
  Bytes bytes;
  if (is_root) bytes = to_bytes(value);
  std::array<std::uint64_t, 1> size{bytes.size()};
  collective.broadcast(std::span<std::uint64_t>{size}, root);
  bytes.resize(size[0]);
  collective.broadcast(as_elements(bytes), root);
  return is_root ? std::move(value) : from_bytes<T>(bytes);
}

/// Every rank's value, in rank order. Two operations: their sizes, their bytes.
template <Transferable T>
[[nodiscard]] auto all_gather_objects(Collective& collective, T const& value) -> std::vector<T> {
  auto mine = to_bytes(value);
  std::array<std::uint64_t, 1> const size{mine.size()};
  std::vector<std::uint64_t> sizes(collective.size().value);
  collective.all_gather(std::span<std::uint64_t const>{size}, std::span<std::uint64_t>{sizes});
  std::vector<std::size_t> const counts(sizes.begin(), sizes.end());
  Bytes all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  collective.all_gatherv(std::span<std::uint8_t const>{as_elements(mine)}, as_elements(all),
                         std::span<std::size_t const>{counts});
  std::vector<T> values;
  auto left = BytesView{all};
  for (auto const count : counts) {
    values.push_back(from_bytes<T>(left.first(count)));
    left = left.subspan(count);
  }
  return values;
}

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/object_exchange-inl.hpp>
#endif
