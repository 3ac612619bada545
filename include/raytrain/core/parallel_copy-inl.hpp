// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/parallel_copy.hpp>

namespace raytrain {

namespace detail {

/// Those of all bytes, counted through the pieces, from `begin` to `end`.
RAYTRAIN_INLINE void copy_range(std::span<CopyPiece const> pieces, std::size_t begin, std::size_t end) {
  std::size_t place = 0;
  for (auto const& piece : pieces) {
    auto const from = std::max(begin, place) - place;
    auto const to = std::min(end, place + piece.size_bytes);
    if (place + from < to) std::memcpy(piece.to + from, piece.from + from, to - place - from);
    place += piece.size_bytes;
    if (place >= end) return;
  }
}

RAYTRAIN_INLINE auto has_common_place(std::span<CopyPiece const> pieces) -> bool {
  std::vector<CopyPiece> sorted;
  for (auto const& piece : pieces) {
    if (piece.size_bytes > 0) sorted.push_back(piece);
  }
  std::ranges::sort(sorted, std::less{}, &CopyPiece::to);
  return std::ranges::adjacent_find(sorted, [](CopyPiece const& a, CopyPiece const& b) {
           return std::less{}(b.to, a.to + a.size_bytes);
         }) != sorted.end();
}

}  // namespace detail

RAYTRAIN_INLINE void parallel_copy(std::span<CopyPiece const> pieces, std::size_t threads) {
  constexpr std::size_t least_bytes = 4U << 20U;  // takes ten times as long as to start a thread
  std::size_t total = 0;
  for (auto const& piece : pieces) total += piece.size_bytes;
  auto parts = std::clamp<std::size_t>(total / least_bytes, 1, std::max<std::size_t>(threads, 1));
  if (parts > 1 && detail::has_common_place(pieces)) parts = 1;
  auto const begin_of = [&](std::size_t part) { return total / parts * part + std::min(part, total % parts); };
  std::vector<std::jthread> others;
  others.reserve(parts);
  for (std::size_t part = 1; part < parts; ++part) {
    auto const copy = [=] { detail::copy_range(pieces, begin_of(part), begin_of(part + 1)); };
    try {
      others.emplace_back(copy);
    } catch (std::system_error const&) {  // no thread is left
      copy();
    }
  }
  detail::copy_range(pieces, 0, begin_of(1));
}

}  // namespace raytrain
