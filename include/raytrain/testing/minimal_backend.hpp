// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>

#include <raytrain/backend/backend.hpp>

namespace raytrain::testing {

/// The least that a backend can be: workers with no framework. It carries the generic path in tests and benchmarks.
struct MinimalBackend {
  struct Config {};
  using Context = TrainContext;

  static constexpr std::string_view name = "minimal";
  static constexpr Launch default_launch = Launch::threads;

  explicit MinimalBackend(Config const&) {}

  void on_start(ScalingConfig const&) {}
  auto make_context(WorkerSetup setup) -> Context { return Context{std::move(setup)}; }
  void on_shutdown() noexcept {}
};

static_assert(Backend<MinimalBackend>);

}  // namespace raytrain::testing
