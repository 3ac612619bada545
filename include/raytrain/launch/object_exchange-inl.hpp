// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/object_exchange.hpp>

namespace raytrain::detail {

/// As the collectives carry them.
RAYTRAIN_INLINE auto as_elements(Bytes& bytes) noexcept -> std::span<std::uint8_t> {
  return {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()};
}

RAYTRAIN_INLINE auto broadcast_bytes(Collective& collective, Bytes bytes, Rank root) -> Bytes {
  std::array<std::uint64_t, 1> size{bytes.size()};
  collective.broadcast(std::span<std::uint64_t>{size}, root);
  bytes.resize(size[0]);
  collective.broadcast(as_elements(bytes), root);
  return bytes;
}

RAYTRAIN_INLINE auto all_gather_bytes(Collective& collective, Bytes mine) -> std::vector<Bytes> {
  std::array<std::uint64_t, 1> const size{mine.size()};
  std::vector<std::uint64_t> sizes(collective.size().value);
  collective.all_gather(std::span<std::uint64_t const>{size}, std::span<std::uint64_t>{sizes});
  std::vector<std::size_t> const counts(sizes.begin(), sizes.end());
  Bytes all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  collective.all_gatherv(std::span<std::uint8_t const>{as_elements(mine)}, as_elements(all),
                         std::span<std::size_t const>{counts});
  std::vector<Bytes> by_rank;
  for (auto left = BytesView{all}; auto const count : counts) {
    by_rank.emplace_back(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count));
    left = left.subspan(count);
  }
  return by_rank;
}

}  // namespace raytrain::detail
