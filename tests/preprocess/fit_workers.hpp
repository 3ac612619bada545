// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/collective/local.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/launch/object_exchange.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain::testing {

/// What `learn(rows)` gives on each of so many workers, which hold the dataset whole and learn from a part each.
template <class Learn>
[[nodiscard]] auto learnt_by_workers(Dataset const& dataset, std::uint32_t workers, Learn const& learn) {
  using Learnt = decltype(learn(std::declval<FitRows const&>()));
  auto const collectives = local_collectives(WorldSize{workers}, {});
  std::vector<Learnt> learnt(workers);
  std::vector<std::exception_ptr> errors(workers);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          auto const collective = collectives.collective_of(Rank{rank});
          learnt[rank] = learn(FitRows{dataset, {.rank = {rank}, .world_size = {workers}}, [&](Bytes mine) {
                                         return detail::all_gather_bytes(*collective, std::move(mine));
                                       }});
        } catch (...) {
          errors[rank] = std::current_exception();
          collectives.group->abort();
        }
      });
    }
  }
  for (auto const& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return learnt;
}

}  // namespace raytrain::testing
