// SPDX-License-Identifier: Apache-2.0
// A program that has MPI of its own, and trains on some of its ranks:
//   communicator_program STORAGE halves|null|single
#include <cstdint>
#include <exception>
#include <iostream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <cereal/cereal.hpp>

#include <raytrain/launch/rank_communicator.hpp>
#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

namespace {

struct Sum {
  int world_ranks = 0;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(world_ranks));
  }
};

void say(std::ostringstream const& line) { std::cout << line.str() + "\n" << std::flush; }

// Both halves train at the same time; the ranks of a half add up their numbers in the world.
void train_half(std::string const& storage, int world_rank, MPI_Comm communicator) {
  raytrain::RankCommunicator const in_use{communicator};
  raytrain::Trainer<raytrain::testing::MinimalBackend> trainer{
      [=](raytrain::TrainContext& ctx) {
        std::vector<std::int32_t> values{world_rank};
        ctx.collective().all_reduce(std::span<std::int32_t>{values}, raytrain::ReduceOp::sum);
        ctx.report(Sum{values[0]});
      },
      {.run = {.name = "half_" + std::to_string(world_rank % 2), .storage_path = storage}}};
  auto const result = trainer.fit();
  std::ostringstream line;
  line << "result " << result.path.filename().string() << ": " << result.all_reports().size()
       << " reports, ranks add up to " << result.metrics.number("world_ranks").value_or(-1);
  say(line);
}

}  // namespace

auto main(int, char** argv) -> int {
  std::string const storage = argv[1];
  std::string const what = argv[2];
  int provided = MPI_THREAD_SINGLE;
  if (what == "single") {
    MPI_Init(nullptr, nullptr);
  } else {
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  }
  int world_rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm half = MPI_COMM_NULL;
  if (what != "null") MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &half);
  try {
    train_half(storage, world_rank, half);
    int ranks = 1;
    MPI_Allreduce(MPI_IN_PLACE, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    std::ostringstream line;
    line << "MPI goes on with " << ranks;
    say(line);
  } catch (std::exception const& error) {
    std::ostringstream line;
    line << "error: " << error.what();
    say(line);
  }
  if (half != MPI_COMM_NULL) MPI_Comm_free(&half);
  MPI_Finalize();
  return 0;
}
