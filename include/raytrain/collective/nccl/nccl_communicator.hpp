// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <chrono>
#include <string>
#include <utility>

#include <raytrain/collective/detail/patience.hpp>
#include <raytrain/collective/nccl/nccl_error.hpp>

namespace raytrain::detail {

/// A non-blocking communicator of NCCL: none of its calls waits for other ranks, but for `abort` and the end.
///
/// Threads: one at a time.
class NcclCommunicator {
 public:
  NcclCommunicator() = default;
  NcclCommunicator(NcclCommunicator&& other) noexcept : comm_{std::exchange(other.comm_, nullptr)} {}
  auto operator=(NcclCommunicator&& other) noexcept -> NcclCommunicator& {
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~NcclCommunicator() { finalize(); }

  /// On the current device. `is_ready` says when it may be used.
  void start(int ranks, ncclUniqueId const& id, int rank, std::string const& attempted) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check_nccl(ncclCommInitRankConfig(&comm_, ranks, id, rank, &config), attempted);
  }

  [[nodiscard]] auto get() const noexcept -> ncclComm_t { return comm_; }

  /// Whether the last call has done its part on the host: only then are its kernels on the stream, and may the next
  /// call come.
  ///
  /// Errors: `backend` for what went wrong since the start, on other ranks too.
  [[nodiscard]] auto is_ready(std::string const& attempted) const -> bool {
    auto state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(comm_, &state), attempted);
    check_nccl(state, attempted);
    return state != ncclInProgress;
  }

  /// Ends what it has on the device, without the other ranks.
  void abort() noexcept {
    if (comm_ != nullptr) (void)ncclCommAbort(std::exchange(comm_, nullptr));
  }

 private:
  static constexpr std::chrono::seconds finalize_limit{5};

  /// Lets go what other ranks may still fetch from this one; not for ever, if they are lost.
  void finalize() noexcept {
    if (comm_ == nullptr) return;
    auto state = ncclCommFinalize(comm_);
    Patience patience;
    for (std::chrono::nanoseconds waited{0}; state == ncclInProgress && waited < finalize_limit;) {
      waited = patience.pause();
      if (ncclCommGetAsyncError(comm_, &state) != ncclSuccess) break;
    }
    if (state != ncclSuccess) return abort();
    (void)ncclCommDestroy(std::exchange(comm_, nullptr));
  }

  ncclComm_t comm_ = nullptr;
};

}  // namespace raytrain::detail
