// SPDX-License-Identifier: Apache-2.0
// From the failure of one of two workers, or from the wish that two become three, or three two, until all have done the
// next step. Arguments: threads, processes or mpirun; throw, kill, stop or resize; folder for the run.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cereal/cereal.hpp>

#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

#include "launch_named.hpp"
#include "moments.hpp"

namespace {

struct Epoch {
  int epoch = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch)); }
};

struct Noticed : raytrain::Callback {
  explicit Noticed(Moments moments) : moments_{std::move(moments)} {}
  void on_start(raytrain::RunInfo const& info) override { resize_ = info.resize; }
  void on_progress(raytrain::Progress const& progress) override {
    moments_.note("failed");
    resize_(static_cast<std::int64_t>(progress.total));
    moments_.note("noticed");
  }
  void on_failure(raytrain::ErrorInfo const&) override { moments_.note("noticed"); }
  void on_restart(raytrain::AttemptInfo const&, std::optional<raytrain::Checkpoint> const&) override {
    moments_.note("ended");
  }

 private:
  Moments moments_;
  std::function<void(std::int64_t)> resize_;
};

void fail(std::string const& fault) {
  if (fault == "kill") ::raise(SIGKILL);
  if (fault == "stop") ::raise(SIGSTOP);
  if (fault == "throw") throw std::runtime_error{"as planned"};
}

auto training(std::string const& fault, Moments const& moments) {
  return [fault, moments](raytrain::TrainContext& ctx) {
    auto const before = ctx.attempt() == raytrain::Attempt{};
    auto const is_timed = !before && ctx.world_rank() == raytrain::Rank{0};
    if (is_timed) moments.note("begun");
    std::vector<float> values(1 << 16, 1.0F);
    auto first = 0;
    if (auto const& checkpoint = ctx.checkpoint()) {
      auto const bytes = checkpoint->read("values");
      std::memcpy(values.data(), bytes.data(), bytes.size());
      first = static_cast<int>(*checkpoint->metrics().number("epoch")) + 1;
    }
    if (is_timed) moments.note("loaded");
    for (auto epoch = first; epoch < epochs; ++epoch) {
      auto const state = raytrain::CheckpointDraft::replicated([&](raytrain::CheckpointDraft& draft) {
        auto const bytes = std::as_bytes(std::span{values});
        draft.add("values", raytrain::Bytes{bytes.begin(), bytes.end()});
      });
      if (before && epoch == last_epoch_before && fault == "resize") {
        ctx.progress(1, ctx.world_size().value == 2 ? 3 : 2);
        while (!ctx.stop_requested()) ctx.barrier();
        ctx.hand_over(state);
      }
      if (before && epoch == last_epoch_before && ctx.world_rank() == raytrain::Rank{1}) {
        moments.note("failed");
        fail(fault);
      }
      ctx.collective().all_reduce(std::span{values}, raytrain::ReduceOp::average);
      if (is_timed && epoch == first) moments.note("step");
      for (auto& value : values) value += 1;
      ctx.report(Epoch{epoch}, state);
    }
    auto const right = std::ranges::all_of(values, [](float value) { return value == 1.0F + epochs; });
    if (!right) throw raytrain::NotRetryable{"training", "the values are not those of an undisturbed one", {}};
  };
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 4) throw std::invalid_argument{"usage: raytrain threads|processes|mpirun throw|kill|stop|resize FOLDER"};
  Moments const moments{std::string{argv[3]} + ".moments"};
  auto const is_elastic = std::string{argv[2]} == "resize";
  raytrain::Trainer<raytrain::testing::MinimalBackend> trainer{
      training(argv[2], moments),
      {.scaling = {.num_workers = is_elastic ? raytrain::WorkerCount{2, 3} : raytrain::WorkerCount{2},
                   .launch = launch_named(argv[1])},
       .run = {.name = "run",
               .storage_path = argv[3],
               .checkpoint = {.num_to_keep = 2},
               .failure = {.max_failures = 1, .backoff = std::chrono::milliseconds{0}}},
       .callbacks = {std::make_shared<Noticed>(moments)}}};
  auto const result = trainer.fit();
  if (result.state != raytrain::RunState::finished || result.attempts.size() != 2) {
    throw std::runtime_error{"the run has not begun twice and then finished"};
  }
  std::printf("{");
  for (auto const* const moment : {"noticed", "ended", "begun", "loaded", "step"}) {
    std::printf("\"%s_ms\": %.4f, ", moment, moments.ms_between("failed", moment));
  }
  std::printf("\"lost_reports\": %lu}\n", static_cast<unsigned long>(result.attempts[0].lost_reports));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "raytrain: %s\n", error.what());
  return 1;
}
