// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/cuda/device_memory.hpp>
#include <raytrain/collective/cuda/device_reduction.hpp>
#include <raytrain/collective/detail/group_checks.hpp>
#include <raytrain/collective/local_group.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain {

/// The world of workers that are threads of this process and share one GPU: what their `DeviceCollective`s share.
///
/// Threads: every function from any thread.
class DeviceGroup : public CollectiveGroup {
 public:
  static constexpr std::uint32_t max_size = std::min(LocalGroup::max_size, detail::DeviceReduction::max_arrays);

  /// Errors: `invalid_call` unless the size is from 1 to `max_size` and there is such a device; `backend` where there
  ///         is no GPU or no driver; what `WaitLimits::validate` throws.
  explicit DeviceGroup(WorldSize size, int device = 0, WaitLimits limits = {})
      : size_{detail::checked_size("DeviceGroup", size, max_size)}, device_{device} {
    detail::check_device(device, "DeviceGroup on device " + std::to_string(device));
    limits.validate("DeviceGroup");
    local_ = std::make_shared<LocalGroup>(size, std::move(limits));
  }

  [[nodiscard]] auto size() const noexcept -> WorldSize override { return size_; }
  [[nodiscard]] auto device() const noexcept -> int { return device_; }

 private:
  friend class DeviceCollective;

  void do_request_stop() noexcept override { local_->request_stop(); }
  void do_abort() noexcept override {
    aborted_.store(true);
    local_->abort();
  }
  void do_leave(Rank rank) noexcept override { local_->leave(rank); }

  /// Waits until every rank's part in the operation with this number, counted from 1, is over: until then others work
  /// on this rank's memory. Cannot be interrupted: all ranks have agreed on the call, so it lasts as long as the device
  /// works.
  void finish(std::uint64_t operation) noexcept {
    auto const goal = operation * size_.value;
    auto finished = finished_.fetch_add(1) + 1;
    if (finished == goal) finished_.notify_all();
    for (; finished < goal; finished = finished_.load()) finished_.wait(finished);
  }

  /// To be called before `finish`, so that every rank sees it after that.
  void fail(std::string const& why) {
    std::scoped_lock const lock{failure_mutex_};
    if (failure_.empty()) failure_ = why;
  }
  [[nodiscard]] auto failure() -> std::string {
    std::scoped_lock const lock{failure_mutex_};
    return failure_;
  }

  WorldSize size_;
  int device_;
  std::shared_ptr<LocalGroup> local_;
  std::atomic<bool> aborted_{false};
  std::atomic<std::uint64_t> finished_{0};
  std::mutex failure_mutex_;
  std::string failure_;
};

}  // namespace raytrain
