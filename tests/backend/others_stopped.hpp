// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/train/result.hpp>

#include "torch_run.hpp"

/// Of three workers rank 1 throws when `begin(ctx)` has returned what comes next. In that both others are stopped, and
/// the run has rank 1's failure alone.
template <class Begin>
void expect_others_stopped(Begin const& begin) {
  std::vector<int> stopped(3);
  try {
    run_once({.workers = 3}, [&](raytrain::TorchContext& ctx) {
      auto next = begin(ctx);
      if (ctx.world_rank() == raytrain::Rank{1}) throw std::out_of_range{"no such row"};
      CHECK_THROWS_AS(next(), raytrain::Stopped);
      ++stopped[ctx.world_rank().value];
      throw raytrain::Stopped{};
    });
    FAIL("must throw");
  } catch (raytrain::TrainingFailed const& failed) {
    REQUIRE(failed.failures().size() == 1);
    CHECK(failed.failures()[0].rank == raytrain::Rank{1});
    CHECK(failed.failures()[0].text() == "no such row");
  }
  CHECK(stopped == std::vector{1, 0, 1});
}
