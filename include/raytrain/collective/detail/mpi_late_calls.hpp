// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <raytrain/collective/detail/agreement.hpp>
#include <raytrain/collective/detail/mpi_communicator.hpp>
#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

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
