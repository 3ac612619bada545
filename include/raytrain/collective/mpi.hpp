// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/detail/mpi_endpoint.hpp>
#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/detail/mpi_reduction.hpp>
#include <raytrain/collective/detail/mpi_transfer.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/mpi_options.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/collective/shared_memory.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/identifiers.hpp>

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
      : endpoint_{{.original = communicator, .options = std::move(options), .pretence = pretence}} {}

  ~MpiGroup() override {
    if (endpoint_.has_pending()) *left_pending_ = true;
  }

  [[nodiscard]] auto rank() const noexcept -> Rank { return endpoint_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return endpoint_.size(); }

  /// The lowest rank of this rank's host: the same on all ranks of a host, another one on each host.
  [[nodiscard]] auto first_rank_of_host() const noexcept -> Rank { return endpoint_.first_rank_here(); }

  /// A communicator with the same ranks for MPI calls of the program's own, which do not mix with raytrain's. It
  /// belongs to the group, and its errors end the job unless MPI_Comm_set_errhandler is told otherwise.
  [[nodiscard]] auto communicator() const noexcept -> MPI_Comm { return endpoint_.program_handle(); }

  /// How arrays travel: "memory that all ranks share", "shared memory, and MPI between hosts" or "MPI".
  [[nodiscard]] auto transport() const noexcept -> std::string_view {
    if (endpoint_.is_on_one_host()) return "memory that all ranks share";
    return endpoint_.hosts().memory() != nullptr ? "shared memory, and MPI between hosts" : "MPI";
  }

  /// Between hosts only: on one host each call is compared.
  [[nodiscard]] auto calls_made() const noexcept -> CallsMade override {
    return {endpoint_.calls().operations(), endpoint_.calls().digest()};
  }

  /// Between hosts only: in shared memory each rank writes to its own arrays. Of duplicates, those that are gone count.
  [[nodiscard]] auto has_pending() const noexcept -> bool override { return endpoint_.has_pending() || *left_pending_; }

 private:
  friend class MpiCollective;

  void do_request_stop() noexcept override { endpoint_.request_stop(); }
  void do_abort() noexcept override { endpoint_.abort(); }
  void do_leave(Rank rank, std::uint64_t operations) noexcept override { endpoint_.leave(rank, operations); }

  struct OfDuplicate {};
  MpiGroup(OfDuplicate, MpiGroup const& original)
      : endpoint_{{.original = original.endpoint_.handle(),
                   .options = original.endpoint_.options(),
                   .pretence = original.endpoint_.pretence(),
                   .beside_worker = true}},
        left_pending_{original.left_pending_} {}

  /// A group of the same ranks, with the same options. All ranks call it, on the worker's thread.
  [[nodiscard]] auto duplicate() -> std::shared_ptr<MpiGroup> {
    std::shared_ptr<MpiGroup> made{new MpiGroup{OfDuplicate{}, *this}};
    adopt(made);
    return made;
  }

  detail::MpiEndpoint endpoint_;
  std::shared_ptr<std::atomic<bool>> left_pending_ = std::make_shared<std::atomic<bool>>(false);  ///< By duplicates.
};

/// This process's side of an `MpiGroup`: exchanges arrays with the other ranks of an MPI job, on one host or many.
///
/// On one host, and with `Reduction::rank_order` on any, the result has the bits of `LocalCollective`'s. Otherwise
/// sums, averages and products of `float` and `double` follow MPI's order in reduce and small all_reduces, and in large
/// ones each host's ranks come before the next host's: these may differ in their last bits; everything else is as on
/// one host.
///
/// Threads: one at a time, the worker's.
/// Errors:  every operation: as `Collective` says, but that ranks of several hosts compare their calls in barriers,
///          where a model's backward begins or the program's own calls follow it, when 1 MiB has been exchanged since
///          the last time, after about a millisecond of operations, at the latest after 32, and when one has waited
///          for a second: until then arrays may get values of other calls'. With
///          `MpiOptions::check_calls` they compare each one. `backend` with MPI's text. After any but `invalid_call`
///          every call fails.
/// Cost:    on one host that of `SharedMemoryCollective`. On several, all_reduce of what MPI can combine sends an array
///          once a host, unless in `Reduction::rank_order`, and all_gather and all_gatherv each part, where the ranks
///          of each host follow each other; everything else goes by MPI between all ranks. Parts of large arrays travel
///          in both directions of a network at the same time.
class MpiCollective final : public Collective {
 public:
  /// Errors: `invalid_call` when there is no group.
  explicit MpiCollective(std::shared_ptr<MpiGroup> group)
      : group_{detail::checked_group("MpiCollective", std::move(group))} {
    auto& mpi = group_->endpoint_;
    auto const& hosts = mpi.hosts();
    if (hosts.memory() == nullptr) return;
    // Of ranks that wait for each other, some may wait in memory and others in MPI.
    std::function<void(std::chrono::nanoseconds)> watch;
    if (!is_on_one_host()) watch = [&mpi](std::chrono::nanoseconds waited) { mpi.check_wait(waited); };
    within_host_.emplace(hosts.memory(), hosts.rank(), hosts.ranks_here(), std::move(watch));
  }

  [[nodiscard]] auto rank() const noexcept -> Rank override { return group_->rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return group_->size(); }

  /// Whether `MpiGroup::request_stop` was called on any rank, as of the last operation in which ranks agreed about it;
  /// in a world of one, as of now.
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override {
    return is_on_one_host() ? within_host_->stop_agreed() : group_->endpoint_.stop_agreed();
  }

  [[nodiscard]] auto start(Task const& task) -> Pending override {
    if (is_on_one_host()) return within_host_->start(task);
    operate(task);
    return {};
  }

  /// Its group begins with all of `MpiGroup`'s work, some milliseconds.
  ///
  /// Errors: also `invalid_call` where MPI allows for one thread at a time only.
  [[nodiscard]] auto duplicate() -> std::unique_ptr<Collective> override {
    detail::check_several_threads();
    start({{Operation::duplicate}}).wait();
    return std::make_unique<MpiCollective>(group_->duplicate());
  }

  /// In memory that the ranks of this host share, if they do.
  [[nodiscard]] auto allocate_zeros(std::size_t size_bytes) -> std::shared_ptr<void> override {
    return within_host_ ? within_host_->allocate_zeros(size_bytes) : detail::allocate_pages(size_bytes);
  }

 private:
  [[nodiscard]] auto is_on_one_host() const noexcept -> bool { return group_->endpoint_.is_on_one_host(); }

  void operate(Task const& task) {
    auto& mpi = group_->endpoint_;
    mpi.operate(task.call, task.counts, [&] {
      if (size() == WorldSize{1}) return copy(task);
      if (within_host_ && task.call.operation == Operation::all_reduce && !mpi.combines_in_rank_order() &&
          detail::mpi_combines(task.call.element, task.call.op)) {
        return all_reduce_by_hosts(task);
      }
      bool const gathers =
          task.call.operation == Operation::all_gather || task.call.operation == Operation::all_gatherv;
      if (within_host_ && gathers && mpi.hosts().are_in_blocks()) return all_gather_by_hosts(task);
      exchange(mpi, task);
    });
  }

  /// The ranks of each host reduce, their first ones do so with each other, and hand the result around: each array
  /// crosses the network once a host.
  void all_reduce_by_hosts(Task const& task) {
    bool const leads = within_host_->rank() == Rank{0};
    auto here = task;
    here.of = &task.call;
    here.call.operation = Operation::reduce;
    if (here.call.op == ReduceOp::average) here.call.op = ReduceOp::sum;
    if (!leads) here.to = {};
    within_host_->start(here).wait();
    auto& mpi = group_->endpoint_;
    if (leads) {
      auto between_hosts = here;
      between_hosts.call.operation = Operation::all_reduce;
      detail::MpiReduction{mpi, mpi.hosts().leaders(), between_hosts}.all_reduce();
      // What they exchange are sums: an average is one of all ranks, not of hosts.
      if (task.call.op == ReduceOp::average) task.reducers->divide(task.to, size().value);
    }
    here.call.operation = Operation::broadcast;
    here.call.op = {};
    here.to = task.to;
    if (!leads) here.from = {};
    within_host_->start(here).wait();
  }

  /// The first rank of each host gets the parts of its ranks, exchanges them with those of other hosts, and hands all
  /// around: each part crosses the network once a host.
  void all_gather_by_hosts(Task const& task) {
    auto const& hosts = group_->endpoint_.hosts();
    auto const& ranks_here = hosts.ranks_here();
    std::vector<std::size_t> counts(task.counts.begin(), task.counts.end());
    if (task.call.operation == Operation::all_gather) counts.assign(size().value, task.call.count);
    auto const sum = [](std::span<std::size_t const> of) {
      return std::accumulate(of.begin(), of.end(), std::size_t{0});
    };
    auto const all = std::span<std::size_t const>{counts};
    auto const of_host = all.subspan(ranks_here.front(), ranks_here.size());
    auto const element_bytes = size_bytes(task.call.element);

    auto here = task;
    here.of = &task.call;
    here.call.operation = Operation::all_gatherv;
    here.call.count = sum(of_host);
    here.call.counts_digest = detail::digest_of(of_host);
    here.to = task.to.subspan(sum(all.first(ranks_here.front())) * element_bytes, sum(of_host) * element_bytes);
    here.counts = of_host;
    within_host_->start(here).wait();

    bool const leads = within_host_->rank() == Rank{0};
    if (leads) {
      std::vector<std::size_t> by_host;
      for (auto left = all; auto const ranks : hosts.ranks_by_host()) {
        by_host.push_back(sum(left.first(ranks)));
        left = left.subspan(ranks);
      }
      auto between_hosts = here;
      between_hosts.from = here.to;
      between_hosts.to = task.to;
      between_hosts.counts = by_host;
      detail::MpiTransfer{group_->endpoint_, hosts.leaders(), between_hosts}.all_gatherv();
    }
    here.call.operation = Operation::broadcast;
    here.call.count = sum(all);
    here.call.counts_digest = 0;
    here.counts = {};
    here.to = task.to;
    here.from = leads ? std::span<std::byte const>{task.to} : std::span<std::byte const>{};
    within_host_->start(here).wait();
  }

  static void copy(Task const& task) noexcept {
    if (task.to.data() != task.from.data() && !task.from.empty()) {
      std::memcpy(task.to.data(), task.from.data(), task.from.size());
    }
  }

  static void exchange(detail::MpiEndpoint& mpi, Task const& task) {
    detail::MpiTransfer const transfer{mpi, mpi.members(), task};
    detail::MpiReduction const reduction{mpi, mpi.members(), task};
    switch (task.call.operation) {
      case Operation::barrier:  // agreeing about a request to stop takes a message of every rank
      case Operation::duplicate: return;
      case Operation::all_reduce: return reduction.all_reduce();
      case Operation::broadcast: return transfer.broadcast();
      case Operation::all_gather: return transfer.all_gather();
      case Operation::reduce_scatter: return reduction.reduce_scatter();
      case Operation::reduce: return reduction.reduce();
      case Operation::gather: return transfer.gather();
      case Operation::scatter: return transfer.scatter();
      case Operation::all_gatherv: return transfer.all_gatherv();
    }
  }

  std::shared_ptr<MpiGroup> group_;
  std::optional<SharedMemoryCollective> within_host_;  ///< With the ranks of this host, if they share memory.
};

}  // namespace raytrain
