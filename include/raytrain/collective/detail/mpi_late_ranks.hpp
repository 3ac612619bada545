// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <raytrain/collective/detail/agreement.hpp>
#include <raytrain/collective/detail/mpi_communicator.hpp>
#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/detail/waiting.hpp>
#include <raytrain/collective/wait_limits.hpp>
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

/// How ranks that wait long find out whether they wait for each other in different operations: each tells the others
/// what it has called, by messages of its own, since an operation of MPI does not say whom it waits for.
///
/// Threads: the worker's.
class MpiLateCalls {
 public:
  /// All ranks construct it.
  explicit MpiLateCalls(MpiCommunicator& ranks)
      : ranks_{ranks}, pending_{std::make_unique<PendingSends>()}, seen_(ranks.size().value, 0) {
    check_mpi(MPI_Bcast(&group_, 1, MPI_UINT64_T, 0, ranks.handle()), "MPI_Bcast");
  }
  MpiLateCalls(MpiLateCalls const&) = delete;
  auto operator=(MpiLateCalls const&) -> MpiLateCalls& = delete;
  ~MpiLateCalls() {
    // MPI still reads it.
    if (is_sending()) (void)pending_.release();
  }

  /// To all other ranks. They may never look; and what was sent before may be on its way still, which is enough.
  void tell(CallHistory const& mine) {
    if (is_sending()) return;
    // One that arrives when the communicator is gone would be taken for a message of the next that gets its number.
    ranks_.abandon();
    pending_->message = {group_, mine};
    pending_->requests.assign(seen_.size(), MPI_REQUEST_NULL);
    for (std::uint32_t to = 0; to < seen_.size(); ++to) {
      if (to == ranks_.rank().value) continue;
      check_mpi(MPI_Isend(&pending_->message, sizeof(Message), MPI_BYTE, static_cast<int>(to), tag, ranks_.handle(),
                          &pending_->requests[to]),
                "MPI_Isend");
    }
  }

  /// Takes what has come; the error if another rank has called something else.
  [[nodiscard]] auto look(CallHistory const& mine) -> std::optional<Error> {
    for (;;) {
      int is_there = 0;
      MPI_Status status;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag, ranks_.handle(), &is_there, &status), "MPI_Iprobe");
      if (is_there == 0) return std::nullopt;
      Message message;
      check_mpi(
          MPI_Recv(&message, sizeof message, MPI_BYTE, status.MPI_SOURCE, tag, ranks_.handle(), MPI_STATUS_IGNORE),
          "MPI_Recv");
      if (message.group != group_) continue;  // one that is gone
      auto const from = static_cast<std::uint32_t>(status.MPI_SOURCE);
      seen_[from] = message.calls.operations();
      bool const is_lower = from < ranks_.rank().value;
      auto error = is_lower ? CallHistory::mismatch({{from}, message.calls}, {ranks_.rank(), mine})
                            : CallHistory::mismatch({ranks_.rank(), mine}, {{from}, message.calls});
      if (error) return error;
    }
  }

  /// Ranks that have not told of so many operations.
  [[nodiscard]] auto missing(std::uint64_t operations) const -> std::vector<std::uint32_t> {
    std::vector<std::uint32_t> missing;
    for (std::uint32_t rank = 0; rank < seen_.size(); ++rank) {
      if (rank != ranks_.rank().value && seen_[rank] < operations) missing.push_back(rank);
    }
    return missing;
  }

 private:
  static constexpr int tag = 2;

  struct Message {
    std::uint64_t group = 0;
    CallHistory calls;
  };
  struct PendingSends {
    Message message;
    std::vector<MPI_Request> requests;
  };

  [[nodiscard]] auto is_sending() const noexcept -> bool {
    int finalized = 1;
    if (pending_->requests.empty() || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return false;
    int over = 0;
    return MPI_Testall(static_cast<int>(pending_->requests.size()), pending_->requests.data(), &over,
                       MPI_STATUSES_IGNORE) != MPI_SUCCESS ||
           over == 0;
  }

  MpiCommunicator& ranks_;
  std::uint64_t group_ = std::random_device{}();  ///< The same on all ranks, another one for each communicator.
  std::unique_ptr<PendingSends> pending_;
  std::vector<std::uint64_t> seen_;  ///< By rank, of how many operations it has told.
};

}  // namespace raytrain::detail
