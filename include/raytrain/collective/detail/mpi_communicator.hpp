// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <raytrain/collective/detail/mpi_arrival.hpp>
#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/collective/waiting.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/usable_cores.hpp>

namespace raytrain::detail {

/// A duplicate of a communicator for MPI calls of the program's own. What goes wrong in it ends the job, as MPI has it
/// unless it is told otherwise.
///
/// Threads: where MPI may be used; `abandon` from any.
class MpiDuplicate {
 public:
  /// All ranks of `original` call it, and it waits for them.
  explicit MpiDuplicate(MPI_Comm original) {
    check_mpi(MPI_Comm_dup(original, handle_.put()), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(handle(), MPI_ERRORS_ARE_FATAL), "MPI_Comm_set_errhandler");
  }

  [[nodiscard]] auto handle() const noexcept -> MPI_Comm { return handle_.get(); }

  /// Leaves it to the end of the process: the program may have left something pending in it.
  void abandon() noexcept { handle_.abandon(); }

 private:
  MpiHandle handle_;
};

/// Some of a communicator's ranks, and where this one stands among them.
struct MpiMembers {
  MPI_Comm handle = MPI_COMM_NULL;
  std::size_t rank = 0;
  std::size_t size = 0;
};

/// A communicator of one's own with the ranks of another one, and what is known of where they are.
///
/// Threads: one at a time, of all that use MPI unless it was initialised for MPI_THREAD_MULTIPLE.
class MpiCommunicator {
 public:
  /// All ranks of `original` call it, and it waits for them.
  ///
  /// Errors: `invalid_call` when MPI is not in use, too few threads may use it, or `original` cannot be duplicated; as
  ///         `barrier_with_limits`.
  MpiCommunicator(MPI_Comm original, WaitLimits const& limits) {
    check_usable(original);
    limits.validate("MpiGroup");
    barrier_with_limits(original, limits);
    check_mpi(MPI_Comm_dup(original, handle_.put()), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(handle(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    int number = 0;
    check_mpi(MPI_Comm_rank(handle(), &number), "MPI_Comm_rank");
    rank_ = {static_cast<std::uint32_t>(number)};
    check_mpi(MPI_Comm_size(handle(), &number), "MPI_Comm_size");
    size_ = {static_cast<std::uint32_t>(number)};
    look_at_host();
  }

  [[nodiscard]] auto handle() const noexcept -> MPI_Comm { return handle_.get(); }
  [[nodiscard]] auto rank() const noexcept -> Rank { return rank_; }
  [[nodiscard]] auto size() const noexcept -> WorldSize { return size_; }
  [[nodiscard]] auto is_on_one_host() const noexcept -> bool { return ranks_here_ == size_; }

  /// The lowest rank of this rank's host.
  [[nodiscard]] auto first_rank_here() const noexcept -> Rank { return {first_here_}; }

  /// On whose core this rank waits, or a thread beside its worker, which computes with as many threads as it has cores.
  /// `own`: the ranks of this host have a core each, so that one that waits takes none away from the others.
  [[nodiscard]] auto core_use(bool beside_worker) const noexcept -> CoreUse {
    if (beside_worker) return CoreUse::computing;
    return cores_ >= ranks_here_.value ? CoreUse::own : CoreUse::shared;
  }

  /// Cores that the ranks of this host may run on, all of them together, or fewer where their container has a quota.
  [[nodiscard]] auto cores_here() const noexcept -> std::size_t { return cores_; }

  /// Leaves the communicator to the end of the process: something is pending in it that cannot be taken back.
  void abandon() noexcept { handle_.abandon(); }

 private:
  static void check_usable(MPI_Comm original) {
    auto const refuse = [](std::string happened, std::string remedy) {
      throw Error{Errc::invalid_call, "MpiGroup", std::move(happened), std::move(remedy)};
    };
    int answer = 0;
    check_mpi(MPI_Initialized(&answer), "MPI_Initialized");
    if (answer == 0) {
      refuse(
          "MPI is not initialised",
          "make a raytrain::MpiSession first, or call MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided)");
    }
    check_mpi(MPI_Finalized(&answer), "MPI_Finalized");
    if (answer != 0) refuse("MPI is finalized already", "make the group while MPI is in use");
    check_mpi(MPI_Query_thread(&answer), "MPI_Query_thread");
    if (answer < MPI_THREAD_SERIALIZED) {
      refuse("needs MPI_THREAD_SERIALIZED, since operations run on the worker's thread (MPI was initialised with " +
                 std::string{thread_level_name(answer)} + ")",
             "initialise it by raytrain::MpiSession or MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided)");
    }
    if (original == MPI_COMM_NULL) {
      refuse("needs a communicator (got MPI_COMM_NULL)", "leave out ranks that are not in the communicator");
    }
    check_mpi(MPI_Comm_test_inter(original, &answer), "MPI_Comm_test_inter");
    if (answer != 0)
      refuse("needs a communicator of one group (got one between two)", "merge it by MPI_Intercomm_merge");
  }

  void look_at_host() {
    MPI_Comm host = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(handle(), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
    int number = 0;
    check_mpi(MPI_Comm_size(host, &number), "MPI_Comm_size");
    ranks_here_ = {static_cast<std::uint32_t>(number)};
    // mpirun may have given each rank a core of its own, and then no rank sees those of the others.
    std::array<std::uint64_t, 64> cores{};
    for (auto const core : usable_cores()) {
      auto const at = static_cast<std::size_t>(core);
      if (at / 64 < cores.size()) cores[at / 64] |= std::uint64_t{1} << at % 64;
    }
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, cores.data(), static_cast<int>(cores.size()), MPI_UINT64_T, MPI_BOR, host),
              "MPI_Allreduce");
    std::size_t seen = 0;
    for (auto const set : cores) seen += static_cast<std::size_t>(std::popcount(set));
    // Ranks of one host are mostly in one container, whose time they share, also where each has cores of its own.
    auto quota = cpu_quota().value_or(std::numeric_limits<double>::infinity());
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &quota, 1, MPI_DOUBLE, MPI_MAX, host), "MPI_Allreduce");
    cores_ = cores_within(seen, quota);
    first_here_ = rank_.value;
    check_mpi(MPI_Bcast(&first_here_, 1, MPI_UINT32_T, 0, host), "MPI_Bcast");
    check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
  }

  MpiHandle handle_;
  Rank rank_{};
  WorldSize size_{};
  WorldSize ranks_here_{};
  std::uint32_t first_here_ = 0;
  std::size_t cores_ = 0;
};

}  // namespace raytrain::detail
