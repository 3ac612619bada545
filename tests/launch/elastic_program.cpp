// SPDX-License-Identifier: Apache-2.0
// A training whose workers change, which elastic.py starts:
//   elastic_program STORAGE threads|processes|mpirun FEWEST MOST SIZES [DISTURBANCE]
// In its attempt k it asks, after its second step, for the k-th of SIZES, as "3,1,2"; "-" asks for nothing, and waits
// until somebody else does. By "kill1" rank 1 is killed then, by "stop1" it is stopped, by "throw1" it throws, by
// "preempt1" its process is sent a SIGTERM, by "hang1" it never returns and the rank after it is killed. "exit1" and
// "halt1" at their beginning: rank 1 of the first job ends, or is stopped, before it comes to fit(). It says how often
// each sample was trained on, and its weights, which with RAYTRAIN_TEST_VIRTUAL_SHARDS follow from the samples alone.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cereal/cereal.hpp>

#include <raytrain/backend/mpi.hpp>
#include <raytrain/collective/shard_average.hpp>
#include <raytrain/trainer.hpp>

#include "../support/say.hpp"

using namespace raytrain;
using raytrain::testing::say;

namespace {

constexpr std::size_t samples = 240;  // times 12 they divide by any of 1 to 4 workers
constexpr int epochs = 3;

struct Epoch {
  int epoch = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch)); }
};

auto asks(std::string const& wanted) -> bool { return wanted.find_first_not_of("0123456789") == std::string::npos; }

// In the first job.
void go_wrong_before_fit(std::string const& how, std::string const& storage) {
  auto const job = job_environment();
  if (!job || !how.ends_with(std::to_string(job->rank.value)) || std::filesystem::exists(storage + "/came_before")) {
    return;
  }
  if (how.starts_with("exit") || how.starts_with("halt")) std::ofstream{storage + "/came_before"};
  if (how.starts_with("exit")) std::exit(3);
  if (how.starts_with("halt")) ::raise(SIGSTOP);
}

void go_wrong(std::string const& how, Rank rank) {
  if (how.starts_with("hang") && how.ends_with(std::to_string(rank.value - 1))) ::raise(SIGKILL);
  if (!how.ends_with(std::to_string(rank.value))) return;
  if (how.starts_with("kill")) ::raise(SIGKILL);
  if (how.starts_with("stop")) ::raise(SIGSTOP);
  while (how.starts_with("hang")) ::pause();
  if (how.starts_with("preempt")) ::kill(::getpid(), SIGTERM);
  if (how.starts_with("throw")) throw std::runtime_error{"as planned"};
}

void train(MpiContext& ctx, std::vector<std::string> const& wanted, std::string const& disturbance) {
  say("rank ", ctx.world_rank().value, " of ", ctx.world_size().value, " in attempt ", ctx.attempt().value,
      ", WORLD_SIZE ", std::getenv("WORLD_SIZE") == nullptr ? "none" : std::getenv("WORLD_SIZE"), ", process ",
      ::getpid());
  std::vector<double> counts(samples * epochs);
  std::vector<float> weights(16);
  auto shard = ctx.dataset_shard("train");
  auto const attempt = ctx.attempt().value;
  auto const batch_size = ctx.virtual_shards() > 0 ? 4 : 12;
  ShardAverage<float> average{ctx.collective()};
  auto steps = 0;
  for (auto epoch = ctx.restore(shard, {{"counts", counts}, {"weights", weights}}); epoch < epochs; ++epoch) {
    std::vector<double> trained(counts.size());  // in this step
    for (auto const& batch : shard.batches({.batch_size = batch_size, .epoch = epoch})) {
      std::vector<float> rows(batch.size());
      batch.gather<float>("row", rows);
      auto gradient = weights;
      for (auto const row : rows) {
        if (!batch.is_padding())
          trained[static_cast<std::size_t>(epoch) * samples + static_cast<std::size_t>(row)] += 1;
        for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += std::sin(row * static_cast<float>(i)) / 3;
      }
      if (!average.add(gradient, batch.turn())) continue;
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= gradient[i] / 10;
      ctx.sum(trained);
      for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += std::exchange(trained[i], 0);
      if (++steps == 2 && attempt <= wanted.size()) {
        if (asks(wanted[attempt - 1])) ctx.progress(attempt, 1000, wanted[attempt - 1]);
        say("rank ", ctx.world_rank().value, " waits in attempt ", attempt);
        go_wrong(wanted[attempt - 1], ctx.world_rank());
        while (!ctx.stop_requested()) ctx.barrier();
        if (attempt == 1 && !disturbance.empty()) go_wrong(disturbance, ctx.world_rank());
      }
      if (ctx.stop_requested()) ctx.hand_over(save({{"counts", counts}, {"weights", weights}}));
    }
    ctx.report(Epoch{epoch}, save({{"counts", counts}, {"weights", weights}}));
  }
  auto const is_good = std::ranges::all_of(counts, [](double count) { return count == 1; });
  if (ctx.world_rank() != Rank{0}) return;
  say(is_good ? "each sample once" : "not each sample once");
  std::ostringstream bits;
  for (auto const weight : weights) bits << ' ' << std::hexfloat << weight;
  say("weights", bits.str());
}

class Watch : public Callback {
 public:
  void on_start(RunInfo const& info) override { resize_ = info.resize; }
  void on_progress(Progress const& progress) override {
    resize_(std::stoi(progress.note));
    asked_ = std::chrono::steady_clock::now();
  }
  void on_worker_start(Started const&) override {
    if (!asked_) return;
    std::chrono::duration<double, std::milli> const time =
        std::chrono::steady_clock::now() - *std::exchange(asked_, {});
    say("resized after ", time.count(), " ms");
  }
  void on_restart(AttemptInfo const& before, std::optional<Checkpoint> const&) override {
    say("attempt ", before.attempt.value, " of ", before.world_size.value,
        before.failures.empty() ? " is over" : " has failed", ", lost ", before.lost_reports);
  }
  auto on_warning(std::string_view text) -> bool override {
    say("warning: ", text);
    return true;
  }

 private:
  std::function<void(std::int64_t)> resize_;
  std::optional<std::chrono::steady_clock::time_point> asked_;
};

auto parts_of(std::string const& list) -> std::vector<std::string> {
  std::vector<std::string> parts;
  std::istringstream in{list};
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

auto row_numbers() -> Dataset {
  std::vector<float> row(samples);
  for (std::size_t i = 0; i < samples; ++i) row[i] = static_cast<float>(i);
  return Dataset::from_columns({{"row", row}});
}

}  // namespace

auto main(int argc, char** argv) -> int {
  std::vector<std::string> const arguments{argv + 1, argv + argc};
  auto const& launch = arguments.at(1);
  auto const wanted = parts_of(arguments.at(4));
  std::string const disturbance = arguments.size() > 5 ? arguments[5] : "";
  if (!wanted.empty()) go_wrong_before_fit(wanted.front(), arguments.at(0));
  TrainerConfig<MpiBackend> config{
      .scaling = {.num_workers = {std::stoi(arguments.at(2)), std::stoi(arguments.at(3))},
                  .launch = launch == "ranks"       ? Launch::ranks
                            : launch == "mpirun"    ? Launch::mpirun
                            : launch == "processes" ? Launch::processes
                                                    : Launch::threads},
      .run = {.name = "r", .storage_path = arguments.at(0), .failure = {.max_failures = launch == "ranks" ? 0 : 10}},
      .datasets = {{"train", row_numbers()}},
      .callbacks = {std::make_shared<Watch>()}};
  auto const* const command = std::getenv("RAYTRAIN_TEST_COMMAND");
  if (command != nullptr && config.scaling.launch == Launch::mpirun) {
    std::istringstream words{command};
    config.scaling.job_command = {std::istream_iterator<std::string>{words}, {}};
  }
  if (auto const* const limit = std::getenv("RAYTRAIN_TEST_START_TIMEOUT"); limit != nullptr) {
    config.scaling.start_timeout = std::chrono::milliseconds{std::stoi(limit)};
  }
  if (auto const* const shards = std::getenv("RAYTRAIN_TEST_VIRTUAL_SHARDS"); shards != nullptr) {
    config.scaling.virtual_shards = std::stoi(shards);
  }
  if (auto const* const copies = std::getenv("RAYTRAIN_TEST_MEMORY_COPIES"); copies != nullptr) {
    config.run.checkpoint.memory_copies = std::stoi(copies);
  }
  if (std::getenv("RAYTRAIN_TEST_LICENSED") != nullptr) config.scaling.resources_per_worker.custom = {{"license", 1}};
  Trainer<MpiBackend> trainer{[&](MpiContext& ctx) { train(ctx, wanted, disturbance); }, config};
  try {
    auto const result = trainer.fit();
    std::string sizes;
    for (auto const& attempt : result.attempts) sizes += ' ' + std::to_string(attempt.world_size.value);
    say("result ", to_string(result.state), ", ", result.history.size(), " reports, ", result.warnings.size(),
        " warnings, sizes", sizes);
    return 0;
  } catch (std::exception const& error) {
    say("error ", error.what());
    return 1;
  }
}
