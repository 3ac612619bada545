// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <raytrain/collective/local.hpp>
#include <raytrain/core/identifiers.hpp>

/// A world of threads, for tests that are written for any kind of world.
struct LocalWorld {
  using Group = raytrain::LocalGroup;

  static auto sizes() -> std::vector<std::uint32_t> { return {1, 2, 3, 4, 7}; }
  static auto crowd() -> std::uint32_t { return 64; }
  static auto has(raytrain::WorldSize) -> bool { return true; }
  static auto ranks_here(raytrain::WorldSize size) -> std::vector<std::uint32_t> {
    std::vector<std::uint32_t> ranks(size.value);
    std::iota(ranks.begin(), ranks.end(), 0U);
    return ranks;
  }

  /// Calls `work(collective)` as every rank of the group; what it threw, by rank. A rank that ends leaves.
  template <class Work>
  static auto outcomes(std::shared_ptr<Group> const& group, Work const& work) -> std::vector<std::exception_ptr> {
    std::vector<std::exception_ptr> thrown(group->size().value);
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < thrown.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          raytrain::LocalCollective collective{group, raytrain::Rank{rank}};
          work(collective);
        } catch (...) {
          thrown[rank] = std::current_exception();
        }
        group->leave(raytrain::Rank{rank});
      });
    }
    threads.clear();
    return thrown;
  }

  /// The same in a new group; rethrows the first that was thrown.
  template <class Work>
  static void run(raytrain::WorldSize size, Work const& work) {
    for (auto const& thrown : outcomes(std::make_shared<Group>(size), work)) {
      if (thrown) std::rethrow_exception(thrown);
    }
  }
};
