// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/same_on_ranks.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/object_exchange.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void check_same_on_ranks(Collective& collective, std::vector<std::string> lines,
                                               std::string attempted, std::string remedy) {
  if (collective.size() == WorldSize{1}) return;
  lines.emplace_back("nothing more");
  std::uint64_t digest[] = {0};
  for (auto const& line : lines) {
    for (auto const letter : line) digest[0] = stream_seed(digest[0], static_cast<unsigned char>(letter));
    digest[0] = stream_seed(digest[0], line.size());
  }
  std::vector<std::uint64_t> all(collective.size().value);
  auto const gather = [&](std::uint64_t const(&own)[1]) {
    collective.all_gather(std::span<std::uint64_t const>{own}, std::span<std::uint64_t>{all});
  };
  gather(digest);
  if (std::ranges::count(all, all.front()) == std::ssize(all)) return;

  auto const first = broadcast_object(collective, lines, Rank{0});
  std::uint64_t const line[] = {static_cast<std::uint64_t>(std::ranges::mismatch(lines, first).in1 - lines.begin())};
  gather(line);
  for (std::uint32_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == first.size()) continue;
    auto const of_rank = broadcast_object(collective, lines, Rank{rank});
    throw Error{Errc::rank_mismatch, std::move(attempted),
                fmt::format("rank 0 has {}, and rank {} has {}", first[all[rank]], rank, of_rank[all[rank]]),
                std::move(remedy)};
  }
}

}  // namespace raytrain::detail
