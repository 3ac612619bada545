// SPDX-License-Identifier: Apache-2.0
// What MpiCollective adds to the calls of MPI that it makes, between ranks that share no memory: all_reduce of float32,
// sum, in MPI's own order, against MPI_Iallreduce and MPI_Test by hand, and against MPI_Allreduce, which nothing can
// interrupt. All sides alternate in one job, since less than 100 ns are looked for. Rank 0 prints one JSON object:
// nanoseconds of all by size in bytes.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/collective/mpi_session.hpp>
#include <raytrain/collective/reduce_op.hpp>

namespace {

using Clock = std::chrono::steady_clock;

struct Times {
  double ours_ns;
  double by_hand_ns;
  double blocking_ns;
};

auto median(std::vector<Times> rounds) -> Times {
  // The round in the middle, by what ours costs more than MPI by hand.
  std::ranges::sort(rounds, {}, [](Times const& times) { return times.ours_ns - times.by_hand_ns; });
  return rounds[rounds.size() / 2];
}

auto measure(raytrain::MpiCollective& collective, MPI_Comm communicator, std::size_t bytes, int rounds) -> Times {
  std::vector<float> values(bytes / sizeof(float));
  auto const operations = std::clamp<std::size_t>((std::size_t{16} << 20U) / bytes, 50, 10'000);
  auto const time_ns = [&](auto const& all_reduce) {
    MPI_Barrier(communicator);
    auto const begin = Clock::now();
    for (std::size_t i = 0; i < operations; ++i) {
      std::ranges::fill(values, 1.0F);
      all_reduce();
    }
    return std::chrono::duration<double, std::nano>{Clock::now() - begin}.count() / static_cast<double>(operations);
  };
  auto const ours = [&] { collective.all_reduce(std::span<float>{values}, raytrain::ReduceOp::sum); };
  auto const by_hand = [&] {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, communicator,
                   &request);
    for (int over = 0; over == 0;) MPI_Test(&request, &over, MPI_STATUS_IGNORE);
  };
  auto const blocking = [&] {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, communicator);
  };
  std::vector<Times> all;
  for (int round = 0; round < rounds; ++round) {
    Times times{};
    if (round % 2 == 0) times.ours_ns = time_ns(ours);
    times.by_hand_ns = time_ns(by_hand);
    if (round % 2 == 1) times.ours_ns = time_ns(ours);
    times.blocking_ns = time_ns(blocking);
    all.push_back(times);
  }
  for (auto const value : values) {
    if (value == static_cast<float>(collective.size().value)) continue;
    std::fputs("a sum is wrong\n", stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return median(std::move(all));
}

}  // namespace

/// mpi_cost ROUNDS
auto main(int argc, char** argv) -> int {
  raytrain::MpiSession const session;
  auto const group = std::make_shared<raytrain::MpiGroup>(MPI_COMM_WORLD, raytrain::MpiOptions{.share_memory = false},
                                                          raytrain::detail::MpiPretence{.ranks_per_host = 1});
  raytrain::MpiCollective collective{group};
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  auto const rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  std::string text;
  for (std::size_t const bytes : {8U, 1U << 10U, 64U << 10U, 1U << 20U}) {
    auto const [ours_ns, by_hand_ns, blocking_ns] = measure(collective, communicator, bytes, rounds);
    text += fmt::format(R"({}"{}": {{"ours_ns": {:.1f}, "by_hand_ns": {:.1f}, "blocking_ns": {:.1f}}})",
                        text.empty() ? "" : ", ", bytes, ours_ns, by_hand_ns, blocking_ns);
  }
  if (group->rank() == raytrain::Rank{0}) fmt::print("{{{}}}\n", text);
  MPI_Comm_free(&communicator);
  return 0;
}
