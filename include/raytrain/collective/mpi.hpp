// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <memory>
#include <utility>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/mpi_endpoint.hpp>
#include <raytrain/collective/detail/mpi_reduction.hpp>
#include <raytrain/collective/detail/mpi_transfer.hpp>
#include <raytrain/collective/detail/operations.hpp>
#include <raytrain/collective/detail/reduce.hpp>
#include <raytrain/collective/mpi_group.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain {

/// This process's place in an `MpiGroup`: exchanges arrays with the other ranks of an MPI job, on one host or many.
///
/// On one host, and with `Reduction::rank_order` on any, the result has the bits of `LocalCollective`'s. Otherwise
/// sums, averages and products of `float` and `double` follow MPI's order in all_reduce and reduce, and these two may
/// differ in their last bits; everything else is as on one host.
///
/// Threads: one at a time, the worker's.
/// Errors:  every operation: as `Collective` says, where calls that differ are noticed only with
///          `MpiOptions::check_calls`. `timed_out` as `WaitLimits` says; `backend` with MPI's text. After any but
///          `invalid_call` every call fails.
class MpiCollective : public detail::Operations<MpiCollective> {
 public:
  /// Errors: `invalid_call` when there is no group.
  explicit MpiCollective(std::shared_ptr<MpiGroup> group) : group_{std::move(group)} {
    if (group_ == nullptr) throw Error{Errc::invalid_call, "MpiCollective", "needs a group (got null)"};
  }

  [[nodiscard]] auto rank() const noexcept -> Rank { return group_->rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize { return group_->size(); }

  /// Whether `MpiGroup::request_stop` was called on any rank, as of the last operation in which ranks agreed about it;
  /// in a world of one, as of now.
  [[nodiscard]] auto stop_agreed() const noexcept -> bool { return group_->endpoint_.stop_agreed(); }

  /// Returns when all ranks have called it.
  void barrier() {
    // Agreeing about a request to stop takes a message of every rank, which is a barrier.
    group_->endpoint_.operate({}, {}, [] {});
  }

 private:
  friend class detail::Operations<MpiCollective>;

  template <Element T>
  void run(detail::Task<T> const& task) {
    auto& mpi = group_->endpoint_;
    mpi.operate(task.call, task.counts, [&] {
      if (size() == WorldSize{1}) return copy(task);
      exchange(mpi, task);
    });
  }

  template <Element T>
  static void copy(detail::Task<T> const& task) noexcept {
    if (task.to.data() != task.from.data() && !task.from.empty()) {
      std::memcpy(task.to.data(), task.from.data(), task.from.size_bytes());
    }
  }

  template <Element T>
  static void exchange(detail::MpiEndpoint& mpi, detail::Task<T> const& task) {
    detail::MpiTransfer<T> const transfer{mpi, task};
    auto const reduction = [&](auto const& work) {
      detail::with_op(task.call.op, [&](auto op) { work(detail::MpiReduction<op(), T>{mpi, task}); });
    };
    switch (task.call.operation) {
      case detail::Operation::barrier: return;
      case detail::Operation::all_reduce: return reduction([](auto const& it) { it.all_reduce(); });
      case detail::Operation::broadcast: return transfer.broadcast();
      case detail::Operation::all_gather: return transfer.all_gather();
      case detail::Operation::reduce_scatter: return reduction([](auto const& it) { it.reduce_scatter(); });
      case detail::Operation::reduce: return reduction([](auto const& it) { it.reduce(); });
      case detail::Operation::gather: return transfer.gather();
      case detail::Operation::scatter: return transfer.scatter();
      case detail::Operation::all_gatherv: return transfer.all_gatherv();
    }
  }

  std::shared_ptr<MpiGroup> group_;
};

static_assert(Collective<MpiCollective>);

}  // namespace raytrain
