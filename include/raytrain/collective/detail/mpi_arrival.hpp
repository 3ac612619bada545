// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/collective/waiting.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// Marks communicators in which messages of a failed `barrier_with_limits` are still pending.
class SpentCommunicators {
 public:
  [[nodiscard]] static auto contain(MPI_Comm communicator) -> bool {
    void* mark = nullptr;
    int found = 0;
    check_mpi(MPI_Comm_get_attr(communicator, key(), &mark, &found), "MPI_Comm_get_attr");
    return found != 0;
  }
  static void add(MPI_Comm communicator) {
    static char mark = 0;
    check_mpi(MPI_Comm_set_attr(communicator, key(), &mark), "MPI_Comm_set_attr");
  }

 private:
  static auto key() -> int {
    static int const key = [] {
      int made = MPI_KEYVAL_INVALID;
      check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &made, nullptr),
                "MPI_Comm_create_keyval");
      return made;
    }();
    return key;
  }
};

/// Waits until all ranks of `original` have come here. MPI's own functions would wait for ever for one that has ended.
///
/// Rank 0 hears of each one, by messages without content, and then tells all.
///
/// Errors: `timed_out`, on rank 0 with the names of those that have not come; from then on `invalid_call`, since
///         messages are pending in `original`.
inline void barrier_with_limits(MPI_Comm original, WaitLimits const& limits) {
  constexpr int tag = 32'749;  // every MPI has tags up to 32,767
  int rank = 0;
  int size = 1;
  check_mpi(MPI_Comm_rank(original, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(original, &size), "MPI_Comm_size");
  auto const who = "rank " + std::to_string(rank);
  auto const attempted = "bringing all ranks together on " + who;
  if (SpentCommunicators::contain(original)) {
    throw Error{Errc::invalid_call, attempted,
                "they have not come before, and messages of that time are under way still",
                "give each group a communicator of its own, by MPI_Comm_dup"};
  }
  auto const tell = [&](int other) {
    MPI_Request sent = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(nullptr, 0, MPI_BYTE, other, tag, original, &sent), "MPI_Isend");
    check_mpi(MPI_Request_free(&sent), "MPI_Request_free");
  };
  struct Awaited {
    int rank;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::vector<Awaited> awaited;
  for (int other = 0; other < (rank == 0 ? size : 1); ++other) {
    if (other != rank) awaited.push_back({other});
  }
  for (auto& [other, request] : awaited) {
    check_mpi(MPI_Irecv(nullptr, 0, MPI_BYTE, other, tag, original, &request), "MPI_Irecv");
  }
  if (rank != 0) tell(0);

  auto const names = [&] {
    std::vector<std::uint32_t> ranks;
    for (auto const& [other, request] : awaited) ranks.push_back(static_cast<std::uint32_t>(other));
    return ranks_text(ranks) + (ranks.size() == 1 ? " has" : " have") + " not come";
  };
  auto const or_waits = std::string{rank == 0 ? "" : ", or waits for others"};
  Backoff backoff{CoreUse::shared};
  for (Waiting waiting{limits};;) {
    std::erase_if(awaited, [](Awaited& it) {
      int has_come = 0;
      check_mpi(MPI_Test(&it.request, &has_come, MPI_STATUS_IGNORE), "MPI_Test");
      return has_come != 0;
    });
    if (awaited.empty()) break;
    auto const waited = backoff.pause();
    if (waiting.is_to_warn(waited)) {
      waiting.warn([&] {
        return who + " has waited " + time_text(limits.warn_after) + " for all ranks to come together: " + names() +
               or_waits;
      });
    }
    if (waiting.is_too_long(waited)) {
      SpentCommunicators::add(original);
      throw Error{Errc::timed_out, attempted, names() + " within " + time_text(limits.timeout) + or_waits,
                  "look at what is done there instead, or allow more time: RunConfig::collective_timeout, "
                  "WaitLimits::timeout"};
    }
  }
  for (int other = 1; rank == 0 && other < size; ++other) tell(other);
}

}  // namespace raytrain::detail
