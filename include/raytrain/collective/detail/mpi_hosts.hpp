// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/collective/detail/mpi_communicator.hpp>
#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/mpi_options.hpp>
#include <raytrain/collective/shared_memory.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// The hosts of a communicator's ranks: memory that the ranks of each share, and a communicator of their first ranks.
///
/// Threads: as MpiCommunicator.
class MpiHosts {
 public:
  /// All ranks construct it. Memory is shared everywhere or nowhere: where one rank cannot have that of its host, as in
  /// a container that does not see the other's processes, no rank has.
  MpiHosts(MpiCommunicator const& all, MpiOptions const& options, MpiPretence const& pretence) {
    if (!options.share_memory) return;
    MPI_Comm host = MPI_COMM_NULL;
    if (pretence.ranks_per_host == 0) {
      check_mpi(MPI_Comm_split_type(all.handle(), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
                "MPI_Comm_split_type");
    } else {
      auto const color = static_cast<int>(all.rank().value / pretence.ranks_per_host);
      check_mpi(MPI_Comm_split(all.handle(), color, 0, &host), "MPI_Comm_split");
    }
    int rank = 0;
    int size = 1;
    check_mpi(MPI_Comm_rank(host, &rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(host, &size), "MPI_Comm_size");
    rank_ = {static_cast<std::uint32_t>(rank)};
    ranks_here_.resize(static_cast<std::size_t>(size));
    auto const own = all.rank().value;
    check_mpi(MPI_Allgather(&own, 1, MPI_UINT32_T, ranks_here_.data(), 1, MPI_UINT32_T, host), "MPI_Allgather");
    memory_ = share_memory(host, options.limits, all.cores_here());
    check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");

    // Memory that only one rank has is of no use.
    bool const in_blocks = ranks_here_.back() - ranks_here_.front() + 1 == ranks_here_.size();
    std::array<int, 3> least{memory_ != nullptr ? 1 : 0, -size, in_blocks ? 1 : 0};
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, least.data(), 3, MPI_INT, MPI_MIN, all.handle()), "MPI_Allreduce");
    if (least[0] == 0 || (least[1] == -1 && all.size().value > 1)) memory_ = nullptr;
    are_in_blocks_ = least[2] == 1;
    if (memory_ == nullptr || memory_->size() == all.size()) return;
    check_mpi(MPI_Comm_split(all.handle(), rank_ == Rank{0} ? 0 : MPI_UNDEFINED, 0, leaders_.put()), "MPI_Comm_split");
    if (leaders_.get() == MPI_COMM_NULL) return;
    check_mpi(MPI_Comm_set_errhandler(leaders_.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(leaders_.get(), &rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(leaders_.get(), &size), "MPI_Comm_size");
    rank_of_leader_ = static_cast<std::size_t>(rank);
    number_of_leaders_ = static_cast<std::size_t>(size);
    auto const ranks = static_cast<std::uint32_t>(ranks_here_.size());
    ranks_by_host_.resize(number_of_leaders_);
    check_mpi(MPI_Allgather(&ranks, 1, MPI_UINT32_T, ranks_by_host_.data(), 1, MPI_UINT32_T, leaders_.get()),
              "MPI_Allgather");
  }

  /// Null where memory is not shared.
  [[nodiscard]] auto memory() const noexcept -> std::shared_ptr<SharedMemoryGroup> const& { return memory_; }
  /// This rank's number in it.
  [[nodiscard]] auto rank() const noexcept -> Rank { return rank_; }
  /// The first ranks of all hosts, on such a rank, where there are several hosts that share memory.
  [[nodiscard]] auto leaders() const noexcept -> MpiMembers {
    return {leaders_.get(), rank_of_leader_, number_of_leaders_};
  }

  /// Whether the ranks of each host follow each other.
  [[nodiscard]] auto are_in_blocks() const noexcept -> bool { return are_in_blocks_; }
  /// How many ranks each host has, in the order of their first ranks; on such a rank.
  [[nodiscard]] auto ranks_by_host() const noexcept -> std::vector<std::uint32_t> const& { return ranks_by_host_; }

  /// The ranks of this host, as they are numbered among all.
  [[nodiscard]] auto ranks_here() const noexcept -> std::vector<std::uint32_t> const& { return ranks_here_; }

  /// A rank of all has ended, perhaps on this host.
  void leave(Rank rank) const noexcept {
    auto const here = std::ranges::find(ranks_here_, rank.value);
    if (memory_ == nullptr || here == ranks_here_.end()) return;
    memory_->leave({static_cast<std::uint32_t>(here - ranks_here_.begin())});
  }

  /// Whether the ranks of this host have been told to stop, be it another one of them.
  [[nodiscard]] auto is_aborted() const noexcept -> bool { return memory_ != nullptr && memory_->is_aborted(); }

  /// Whether one of the ranks of this host has called `break_up`, and this one has known it for so long.
  [[nodiscard]] auto is_broken_for(std::chrono::nanoseconds duration) noexcept -> bool {
    if (memory_ == nullptr || !memory_->is_broken()) return false;
    auto const now = std::chrono::steady_clock::now();
    if (!break_seen_) break_seen_ = now;
    return now - *break_seen_ >= duration;
  }

  /// After an operation that failed on this rank alone, or cannot be taken back: the others of this host wait no more
  /// for it in memory, and the communicator is left to the end of the process.
  void break_up() noexcept {
    leaders_.abandon();
    if (memory_ != nullptr && !memory_->is_closed()) memory_->break_up();
  }

 private:
  /// What a rank must know to find the memory that the first one of its host has created.
  struct Where {
    std::int64_t process = 0;
    std::int64_t descriptor = -1;
    std::uint64_t id = 0;
  };

  /// The memory, on all ranks of the host or on none.
  static auto share_memory(MPI_Comm host, WaitLimits const& limits, std::size_t cores)
      -> std::shared_ptr<SharedMemoryGroup> {
    int rank = 0;
    int size = 1;
    check_mpi(MPI_Comm_rank(host, &rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(host, &size), "MPI_Comm_size");
    std::shared_ptr<SharedMemoryGroup> memory;
    Where where;
    if (rank == 0) {
      memory = create({static_cast<std::uint32_t>(size)}, limits, cores);
      if (memory != nullptr) where = {::getpid(), memory->descriptor(), memory->id()};
    }
    check_mpi(MPI_Bcast(&where, sizeof where, MPI_BYTE, 0, host), "MPI_Bcast");
    if (rank != 0 && where.descriptor >= 0) memory = attach(where, limits);
    // Nobody closes its descriptor before all have opened it.
    int have_it = memory != nullptr ? 1 : 0;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &have_it, 1, MPI_INT, MPI_MIN, host), "MPI_Allreduce");
    return have_it != 0 ? memory : nullptr;
  }

  static auto create(WorldSize size, WaitLimits const& limits, std::size_t cores)
      -> std::shared_ptr<SharedMemoryGroup> {
    try {
      return SharedMemoryGroup::create(size, limits, cores);
    } catch (Error const& error) {
      if (error.code() != Errc::io) throw;
      return nullptr;
    }
  }

  static auto attach(Where const& where, WaitLimits const& limits) -> std::shared_ptr<SharedMemoryGroup> {
    auto const path = "/proc/" + std::to_string(where.process) + "/fd/" + std::to_string(where.descriptor);
    int const descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return nullptr;
    std::shared_ptr<SharedMemoryGroup> memory;
    try {
      memory = SharedMemoryGroup::attach(descriptor, limits);
    } catch (Error const&) {
      memory = nullptr;  // another process's: the number means something else here
    }
    ::close(descriptor);
    return memory != nullptr && memory->id() == where.id ? memory : nullptr;
  }

  std::shared_ptr<SharedMemoryGroup> memory_;
  Rank rank_{};
  std::vector<std::uint32_t> ranks_here_;
  std::vector<std::uint32_t> ranks_by_host_;
  bool are_in_blocks_ = false;
  std::optional<std::chrono::steady_clock::time_point> break_seen_;
  MpiHandle leaders_;
  std::size_t rank_of_leader_ = 0;
  std::size_t number_of_leaders_ = 0;
};

}  // namespace raytrain::detail
