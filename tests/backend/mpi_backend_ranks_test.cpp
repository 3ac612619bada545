// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/mpi/communicator.hpp>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>
#include <cereal/cereal.hpp>

#include <raytrain/backend/mpi.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

struct Epoch {
  int epoch = 0;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch));
  }
};

// Rank 0's, on all ranks.
auto shared_path(TemporaryFolder const& folder) -> std::filesystem::path {
  auto path = folder.path().string();
  path.resize(256);
  MPI_Bcast(path.data(), 256, MPI_CHAR, 0, MPI_COMM_WORLD);
  return path.c_str();
}

auto run_in(std::filesystem::path const& folder, Launch launch, std::function<void(MpiContext&)> const& train)
    -> Result {
  return Trainer<MpiBackend>{train, {.scaling = {.launch = launch}, .run = {.name = "run", .storage_path = folder}}}
      .fit();
}

void on_ranks(std::function<void(MpiContext&)> const& train) {
  TemporaryFolder const folder;
  CHECK(run_in(shared_path(folder), Launch::ranks, train).state == RunState::finished);
  MPI_Barrier(MPI_COMM_WORLD);  // before the folder goes
}

}  // namespace

TEST_CASE("the communicator has the workers as its ranks, and is none that is in use") {
  on_ranks([](MpiContext& ctx) {
    auto const mine = communicator(ctx);
    int rank = -1;
    MPI_Comm_rank(mine, &rank);
    CHECK(rank == static_cast<int>(ctx.world_rank().value));
    int likeness = MPI_UNEQUAL;
    MPI_Comm_compare(mine, MPI_COMM_WORLD, &likeness);
    CHECK(likeness == MPI_CONGRUENT);
    CHECK(communicator(ctx) == mine);

    auto sum = rank + 1;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, mine);
    auto const size = static_cast<int>(ctx.world_size().value);
    CHECK(sum == size * (size + 1) / 2);
  });
}

TEST_CASE("MPI calls of the program's own and raytrain's collectives do not meet") {
  on_ranks([](MpiContext& ctx) {
    auto const mine = communicator(ctx);
    auto const size = static_cast<int>(ctx.world_size().value);
    auto const rank = static_cast<int>(ctx.world_rank().value);
    // Takes whatever comes first, from anybody, while arrays of all sizes are exchanged.
    int got = -1;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mine, &request);
    for (std::size_t length : {1U, 1000U, 300'000U}) {
      std::vector<double> values(length, rank);
      ctx.sum(values);
      CHECK(values.back() == size * (size - 1) / 2);
      ctx.replicate(values);
      CHECK(ctx.all_gather(rank).back() == size - 1);
    }
    int done = 1;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    CHECK(done == 0);
    ctx.barrier();
    MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 5, mine);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(got == (rank + size - 1) % size);
  });
}

TEST_CASE("each training has a communicator, also after one that failed") {
  TemporaryFolder const folder;
  auto const path = shared_path(folder);
  auto const sum_of_ones = [](MpiContext& ctx) {
    auto sum = 1;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, communicator(ctx));
    CHECK(sum == static_cast<int>(ctx.world_size().value));
  };
  run_in(path, Launch::ranks, sum_of_ones);
  CHECK_THROWS_AS(run_in(path, Launch::ranks,
                         [&](MpiContext& ctx) {
                           sum_of_ones(ctx);
                           if (ctx.world_rank() == Rank{0}) throw std::runtime_error{"on purpose"};
                           ctx.barrier();
                         }),
                  TrainingFailed);
  run_in(path, Launch::ranks, sum_of_ones);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_CASE("arrays are replicated, averaged and kept in checkpoints on ranks as on threads") {
  TemporaryFolder const folder;
  auto const path = shared_path(folder);
  for (auto const first : {0, 2}) {
    run_in(path, Launch::ranks, [&](MpiContext& ctx) {
      std::vector<float> weights(100, static_cast<float>(ctx.world_rank().value));
      auto epoch = ctx.restore({{"weights", weights}});
      CHECK(epoch == first);
      if (epoch == 0) ctx.replicate(weights);
      CHECK(weights == std::vector<float>(100, static_cast<float>(epoch)));
      for (auto const last = epoch + 2; epoch < last; ++epoch) {
        std::vector<float> gradient(100, static_cast<float>(2 * ctx.world_rank().value));
        ctx.average(gradient);
        CHECK(gradient[99] == static_cast<float>(ctx.world_size().value - 1));
        for (auto& weight : weights) weight += 1;
        ctx.report(Epoch{epoch}, save({{"weights", weights}}));
      }
    });
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_CASE("on threads there is no communicator, and the message says what to do") {
  TemporaryFolder const folder;
  run_in(folder.path(), Launch::threads, [](MpiContext& ctx) {
    CHECK(thrown_error([&] { return communicator(ctx); }) ==
          "invalid_call: raytrain::communicator: the workers are threads of one process, not ranks of MPI; start the "
          "program by mpirun, as 2 ranks or more or with Launch::ranks; or use ctx.collective(), which works on both");
  });
}
