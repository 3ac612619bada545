// SPDX-License-Identifier: Apache-2.0
// From the death of the process of rank 0, which has written a large state, until both workers have done the next step.
// Arguments: MiB of the state; CheckpointConfig::memory_copies; folder for the run.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <cereal/cereal.hpp>

#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

#include "moments.hpp"

namespace {

constexpr int last_step = 5;
constexpr int killed_in = 3;

struct Epoch {
  int epoch = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch)); }
};

auto training(std::size_t elements, Moments const& moments) {
  return [elements, moments](raytrain::TrainContext& ctx) {
    auto const is_first = ctx.attempt() == raytrain::Attempt{};
    auto const is_timed = !is_first && ctx.world_rank() == raytrain::Rank{0};
    std::vector<float> values(elements, 1.0F);
    if (is_timed) moments.note("begun");
    if (auto const& checkpoint = ctx.checkpoint()) {
      auto const bytes = checkpoint->view("values");
      std::memcpy(values.data(), bytes.view().data(), bytes.size());
    }
    if (is_timed) moments.note("loaded");
    for (auto epoch = ctx.first_epoch(); epoch < last_step; ++epoch) {
      if (is_first && epoch == killed_in && ctx.world_rank() == raytrain::Rank{0}) {
        moments.note("failed");
        ::raise(SIGKILL);
      }
      ctx.average(std::span{values}.first(1 << 16));
      if (is_timed && epoch == killed_in) moments.note("step");
      for (auto& value : values) value += 1;
      ctx.report(Epoch{epoch}, raytrain::CheckpointDraft::replicated([&](raytrain::CheckpointDraft& draft) {
                   auto const bytes = std::as_bytes(std::span{values});
                   std::ranges::copy(bytes, draft.allocate("values", bytes.size()).begin());
                 }));
    }
    auto const right = std::ranges::all_of(values, [](float value) { return value == 1.0F + last_step; });
    if (!right) throw raytrain::NotRetryable{"training", "the values are not those of an undisturbed one", {}};
  };
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 4) throw std::invalid_argument{"usage: state MIB COPIES FOLDER"};
  Moments const moments{std::string{argv[3]} + ".moments"};
  auto const elements = std::stoul(argv[1]) * (std::size_t{1} << 20U) / sizeof(float);
  raytrain::Trainer<raytrain::testing::MinimalBackend> trainer{
      training(elements, moments),
      {.scaling = {.num_workers = 2, .launch = raytrain::Launch::processes},
       .run = {.name = "run",
               .storage_path = argv[3],
               .checkpoint = {.num_to_keep = 1,
                              .mode = raytrain::CheckpointMode::sync,
                              .memory_copies = std::stoi(argv[2])},
               .failure = {.max_failures = 1, .backoff = std::chrono::milliseconds{0}}}}};
  auto const result = trainer.fit();
  if (result.state != raytrain::RunState::finished || result.attempts.size() != 2) {
    throw std::runtime_error{"the run has not begun twice and then finished"};
  }
  std::printf("{\"begun_ms\": %.4f, \"loaded_ms\": %.4f, \"step_ms\": %.4f}\n", moments.ms_between("failed", "begun"),
              moments.ms_between("failed", "loaded"), moments.ms_between("failed", "step"));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "state: %s\n", error.what());
  return 1;
}
