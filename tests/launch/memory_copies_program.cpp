// SPDX-License-Identifier: Apache-2.0
// A training whose newest checkpoint is kept in memory, which memory_copies.py starts:
//   memory_copies_program STORAGE WORKERS COPIES [LOST [flip|throw|damage|note]]
// In its first attempt the ranks of LOST, as "0,1", kill themselves, or throw; by "flip" rank 1 has changed a bit of
// its copy before, by "damage" rank 0 its own file in the store; by "note" rank 0 alone has one file more. Each process
// says what it reads from the store. By RAYTRAIN_TEST_COMMAND it starts an MPI job, which goes on with the ranks that
// are left.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <cereal/cereal.hpp>

#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

#include "../support/say.hpp"
#include "../support/watched_reads.hpp"

using namespace raytrain;
using raytrain::testing::say;

namespace {

constexpr int epochs = 6;
constexpr int disturbed = 3;

struct Epoch {
  int epoch = 0;
  double sum = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(sum)); }
};

// Of the newest checkpoint, whose number is that of the epochs before.
void damage_own_file(std::filesystem::path const& run_path) {
  auto const checkpoint = run_path / "checkpoints" / ("checkpoint_00000" + std::to_string(disturbed));
  std::ofstream{checkpoint / rank_folder_name(Rank{0}) / "own", std::ios::binary} << '\6';
}

void train(TrainContext& ctx, std::string const& lost, std::string const& how) {
  say("rank ", ctx.world_rank().value, " of ", ctx.world_size().value, " in attempt ", ctx.attempt().value,
      ", process ", ::getpid());
  std::vector<float> values(100'000);
  auto first = 0;
  if (ctx.checkpoint()) {
    auto const bytes = ctx.checkpoint()->view("values");
    std::memcpy(values.data(), bytes.view().data(), bytes.size());
    auto const own = ctx.checkpoint()->read(rank_folder_name(ctx.world_rank()) + "/own");
    if (own != Bytes{std::byte{7}}) throw NotRetryable{"training", "its own file is another one", {}};
    first = ctx.first_epoch();
  }
  std::span<std::byte> copy;
  for (auto epoch = first; epoch < epochs; ++epoch) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = values[i] * 0.9F + 1.0F / static_cast<float>(3 * i + 7 * ctx.world_rank().value + 1);
    }
    ctx.average(values);
    double sum = 0;
    for (auto const value : values) sum += value;
    if (epoch == disturbed && ctx.attempt() == Attempt{}) {
      if (how == "flip" && ctx.world_rank() == Rank{1}) copy.front() ^= std::byte{1};
      if (how == "damage" && ctx.world_rank() == Rank{0}) damage_own_file(ctx.run_path());
      ctx.barrier();
      if (lost.find(std::to_string(ctx.world_rank().value)) != std::string::npos) {
        if (how == "throw") throw std::runtime_error{"as planned"};
        ::raise(SIGKILL);
      }
      ctx.barrier();
    }
    auto state = CheckpointDraft::replicated([&](CheckpointDraft& draft) {
      copy = draft.allocate("values", values.size() * sizeof(float));
      std::ranges::copy(std::as_bytes(std::span{values}), copy.begin());
    });
    state.add(rank_folder_name(ctx.world_rank()) + "/own", Bytes{std::byte{7}});
    if (how == "note" && ctx.world_rank() == Rank{0}) state.add("note", "of rank 0");
    ctx.report(Epoch{epoch, sum}, state);
  }
}

}  // namespace

auto main(int argc, char** argv) -> int {
  std::vector<std::string> const arguments{argv + 1, argv + argc};
  auto const lost = arguments.size() > 3 ? arguments[3] : std::string{};
  auto const how = arguments.size() > 4 ? arguments[4] : std::string{};
  TrainerConfig<testing::MinimalBackend> config{
      .scaling = {.num_workers = std::stoi(arguments.at(1)), .launch = Launch::processes},
      .run = {.name = "r",
              .storage_path = arguments.at(0),
              .checkpoint = {.mode = CheckpointMode::sync,
                             .memory_copies = std::stoi(arguments.at(2)),
                             .store = testing::watched_store(
                                 [](std::string const& name) { say("reads ", name, " in process ", ::getpid()); })},
              .failure = {.max_failures = 1}}};
  if (std::getenv("RAYTRAIN_TEST_MPIRUN") != nullptr) config.scaling.launch = Launch::mpirun;
  auto const* const command = std::getenv("RAYTRAIN_TEST_COMMAND");
  if (command != nullptr && config.scaling.launch == Launch::mpirun) {
    std::istringstream words{command};
    config.scaling.job_command = {std::istream_iterator<std::string>{words}, {}};
    config.scaling.num_workers = {1, std::stoi(arguments.at(1))};
  }
  if (!is_worker_process()) say("supervisor is process ", ::getpid());
  Trainer<testing::MinimalBackend> trainer{[&](TrainContext& ctx) { train(ctx, lost, how); }, config};
  try {
    auto const result = trainer.fit();
    say("result ", to_string(result.state), ", ", result.attempts.size(), " attempts, sum ", std::hexfloat,
        result.metrics.number("sum").value_or(-1));
    return 0;
  } catch (std::exception const& error) {
    say("error ", error.what());
    return 1;
  }
}
