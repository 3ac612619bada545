// SPDX-License-Identifier: Apache-2.0
// expect-error: raytrain: B does not meet the concept raytrain::Backend
#include <utility>

#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

void ok() {
  raytrain::Trainer<raytrain::testing::MinimalBackend> const trainer{[](raytrain::TrainContext&) {}};
}

#ifdef RAYTRAIN_EXPECT_ERROR
struct NoShutdown {
  struct Config {};
  using Context = raytrain::TrainContext;
  static constexpr std::string_view name = "incomplete";
  static constexpr raytrain::Launch default_launch = raytrain::Launch::threads;
  explicit NoShutdown(Config const&) {}
  void on_start(raytrain::ScalingConfig const&) {}
  auto make_context(raytrain::WorkerSetup setup) -> Context { return Context{std::move(setup)}; }
};
void wrong() {
  raytrain::Trainer<NoShutdown> const trainer{[](raytrain::TrainContext&) {}};
}
#endif
