// SPDX-License-Identifier: Apache-2.0
// The same as two ranks of a plain MPI program, of which a SIGKILL ends one in the first start. Argument: folder for
// the checkpoint, which rank 0 writes.
#define OMPI_SKIP_MPICXX 1  // the C++ bindings, which the standard dropped, need a library of their own
#include <mpi.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>

#include "checkpoint.hpp"
#include "moments.hpp"

auto main(int argc, char** argv) -> int try {
  if (argc != 2) throw std::invalid_argument{"usage: by_hand_ranks FOLDER"};
  std::filesystem::path const folder{argv[1]};
  std::filesystem::create_directories(folder);
  Moments const moments{folder / "moments"};
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  State state;
  auto const resumed = load(state, folder);
  auto const first = state.epoch;
  for (; state.epoch < epochs; ++state.epoch) {
    if (!resumed && state.epoch == last_epoch_before && rank == 1) {
      moments.note("failed");
      ::raise(SIGKILL);
    }
    MPI_Allreduce(MPI_IN_PLACE, state.values.data(), static_cast<int>(state.values.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    if (resumed && state.epoch == first && rank == 0) moments.note("step");
    for (auto& value : state.values) value = value / 2 + 1;
    if (rank == 0) save({state.epoch + 1, state.values}, folder);
  }
  auto const right = std::ranges::all_of(state.values, [](float value) { return value == 1.0F + epochs; });
  if (!right) throw std::runtime_error{"the values are not what an undisturbed training reaches"};
  if (rank == 0) std::printf("{\"step_ms\": %.4f}\n", moments.ms_between("failed", "step"));
  MPI_Finalize();
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "by_hand_ranks: %s\n", error.what());
  return 1;
}
