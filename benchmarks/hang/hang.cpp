// SPDX-License-Identifier: Apache-2.0
// From the moment when one of two workers hangs until it is warned of, until it has failed, and until both have done
// the next step.
// Arguments: threads, processes or mpirun; folder for the run.
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <cereal/cereal.hpp>

#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

#include "../recovery/launch_named.hpp"
#include "../recovery/moments.hpp"
#include "short_steps.hpp"

namespace {

struct Watch : raytrain::Callback {
  explicit Watch(Moments moments) : moments_{std::move(moments)} {}
  auto on_warning(std::string_view text) -> bool override {
    if (text.starts_with("rank 1 has shown no sign of life")) moments_.note("warned");
    return true;
  }
  void on_failure(raytrain::ErrorInfo const&) override { moments_.note("failed"); }

 private:
  Moments moments_;
};

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 3) throw std::invalid_argument{"usage: hang threads|processes|mpirun FOLDER"};
  Moments const moments{std::string{argv[2]} + ".moments"};
  raytrain::Trainer<raytrain::testing::MinimalBackend> trainer{
      [moments, threads = std::string_view{argv[1]} == "threads"](raytrain::TrainContext& ctx) {
        if (ctx.attempt() != raytrain::Attempt{}) {
          ctx.barrier();
          if (ctx.world_rank() == raytrain::Rank{0}) moments.note("step");
          return;
        }
        train_for(ctx, std::chrono::milliseconds{2500});
        if (ctx.world_rank() == raytrain::Rank{1}) {
          moments.note("hangs");
          // A thread can only be waited for, so there it ends when it is told to; a process is ended.
          while (!threads || !ctx.stop_requested()) continue;
        }
        ctx.barrier();
      },
      {.scaling = {.num_workers = 2, .launch = launch_named(argv[1])},
       .run = {.name = "run",
               .storage_path = argv[2],
               .failure = {.max_failures = 1,
                           .backoff = std::chrono::milliseconds{0},
                           .hang_timeout = std::chrono::milliseconds{1500}}},
       .callbacks = {std::make_shared<Watch>(moments)}}};
  auto const result = trainer.fit();
  if (result.state != raytrain::RunState::finished || result.attempts.size() != 2) {
    throw std::runtime_error{"the run has not failed once and then finished"};
  }
  std::printf("{\"warned_ms\": %.4f, \"failed_ms\": %.4f, \"step_ms\": %.4f}\n", moments.ms_between("hangs", "warned"),
              moments.ms_between("hangs", "failed"), moments.ms_between("failed", "step"));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "hang: %s\n", error.what());
  return 1;
}
