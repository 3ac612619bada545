// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/detail/mpi_endpoint.hpp>
#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/mpi_options.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain {

/// The world of workers that are ranks of an MPI communicator: what this process's `MpiCollective` is told from
/// outside.
///
/// It duplicates the communicator, so nothing else that goes on in the original disturbs it. MPI must stay in use until
/// the group is gone, which is for all ranks to let go of, and initialised for MPI_THREAD_SERIALIZED at least, and for
/// MPI_THREAD_MULTIPLE when another thread uses MPI at the same time, be it for another group.
///
/// `request_stop` on any rank makes `MpiCollective::stop_agreed` true on every rank. Where arrays travel by MPI, they
/// agree in barriers, when 1 MiB has been exchanged since the last time, and after about a millisecond of operations,
/// at the latest after 32; in each one when calls are checked.
///
/// `abort` makes this rank, and those that it shares memory with, throw `Stopped` within 100 ms when they wait for
/// others, and in every later call; the other ranks are told in their own processes. MPI cannot take back what it has
/// begun. An operation that was waited in stays pending, and MPI may still write to the caller's arrays while the
/// process uses MPI for anything, MPI_Finalize included: keep them until then. When calls are checked, a rank that
/// waits for others has not given its arrays to MPI yet.
///
/// Threads: constructor and destructor where the worker uses MPI; every function from any thread, none of which uses
/// MPI.
class MpiGroup : public CollectiveGroup {
 public:
  /// All ranks of `communicator` construct it, and each waits for the others.
  ///
  /// Errors: `invalid_call` when MPI is not in use or does not allow for the worker's thread, for anything else than an
  ///         ordinary communicator, and as `WaitLimits::validate` says; `rank_mismatch` on all ranks when their options
  ///         differ; `backend`.
  explicit MpiGroup(MPI_Comm communicator, MpiOptions options = {}, detail::MpiPretence const& pretence = {})
      : endpoint_{communicator, std::move(options), pretence} {}

  [[nodiscard]] auto rank() const noexcept -> Rank { return endpoint_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return endpoint_.size(); }

  /// The lowest rank of this rank's host: the same on all ranks of a host, another one on each host.
  [[nodiscard]] auto first_rank_of_host() const noexcept -> Rank { return endpoint_.first_rank_here(); }

  /// A communicator with the same ranks for MPI calls of the program's own, which meet none of raytrain's. It belongs
  /// to the group, and its errors end the job unless MPI_Comm_set_errhandler is told otherwise.
  [[nodiscard]] auto communicator() const noexcept -> MPI_Comm { return endpoint_.duplicate(); }

  /// How arrays travel: "memory that all ranks share", "shared memory, and MPI between hosts" or "MPI".
  [[nodiscard]] auto transport() const noexcept -> std::string_view {
    if (endpoint_.is_on_one_host()) return "memory that all ranks share";
    return endpoint_.hosts().memory() != nullptr ? "shared memory, and MPI between hosts" : "MPI";
  }

  using CollectiveGroup::leave;

  /// Another rank's training function has ended after so many operations between hosts: one that it has not called is
  /// `Error{Errc::rank_mismatch}`. Duplicates are told where all ranks share memory; elsewhere nobody counts their
  /// operations, and a wait for that rank ends as `WaitLimits` say.
  void leave(Rank rank, std::uint64_t operations) noexcept {
    if (endpoint_.is_on_one_host()) return leave(rank);
    endpoint_.leave(rank, operations);
  }

  /// What this rank has called between hosts: how many operations, and a number that is another one for other calls.
  /// Both are 0 where arrays travel through memory that all ranks share, which compares each call.
  ///
  /// Threads: the worker's.
  struct CallsMade {
    std::uint64_t operations = 0;
    std::uint64_t digest = 0;
    friend auto operator==(CallsMade const&, CallsMade const&) -> bool = default;
  };
  [[nodiscard]] auto calls_made() const noexcept -> CallsMade {
    return {endpoint_.calls().operations(), endpoint_.calls().digest()};
  }

 private:
  friend class MpiCollective;

  void do_request_stop() noexcept override { endpoint_.request_stop(); }
  void do_abort() noexcept override { endpoint_.abort(); }
  void do_leave(Rank rank) noexcept override { endpoint_.leave(rank, 0); }

  /// A group of the same ranks, with the same options. All ranks call it, on the worker's thread.
  [[nodiscard]] auto duplicate() -> std::shared_ptr<MpiGroup> {
    auto made = std::make_shared<MpiGroup>(endpoint_.handle(), endpoint_.options(), endpoint_.pretence());
    adopt(made);
    return made;
  }

  detail::MpiEndpoint endpoint_;
};

}  // namespace raytrain
