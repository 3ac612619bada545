// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/cuda/detail/device_model.hpp>
#include <raytrain/collective/cuda/detail/device_reduction.hpp>
#include <raytrain/collective/cuda/device_memory.hpp>
#include <raytrain/collective/detail/agreement.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/collective/waiting.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>

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
  void do_leave(Rank rank, std::uint64_t) noexcept override { local_->leave(rank); }

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

/// One worker's side of a `DeviceGroup`: exchanges arrays with the group's other threads, all in one GPU's memory.
///
/// For several workers on one GPU, which NCCL refuses. `all_reduce` is one kernel over all ranks' arrays, in rank order
/// and with the bits that `LocalCollective` gives but for which NaN a NaN is; the other operations are copies on the
/// device, and reductions of parts. An array belongs to one rank: ranks that pass the same memory get nonsense.
///
/// Threads: one at a time, the worker's.
/// Errors:  every operation: `rank_mismatch` as `Collective` says, `invalid_call` for a null array with a size, for one
///          that does not lie in the device's memory or what the operation names; the group stays usable after the
///          latter. `backend` on every rank when CUDA reports an error to one after all have called it. `timed_out` as
///          `WaitLimits` says, `Stopped` after `DeviceGroup::abort`. `duplicate` always throws `invalid_call`.
/// Cost:    a wait for the others before, and one for the device and the others after; all_reduce reads and writes
///          world size * sizeof(T) bytes of device memory an element.
class DeviceCollective final : public detail::DeviceModel {
 public:
  /// `stream`: the CUDA stream in which this rank computes its arrays; see `DeviceStream`.
  ///
  /// Errors: `invalid_call` when there is no group, or no such rank in it; `backend` when CUDA reports an error.
  DeviceCollective(std::shared_ptr<DeviceGroup> group, Rank rank, cudaStream_t stream = nullptr)
      : DeviceModel{{detail::checked_group("DeviceCollective", group)->device(), stream}},
        group_{std::move(group)},
        local_{group_->local_, rank},
        ready_{group_->device()} {}
  DeviceCollective(DeviceCollective&&) noexcept = default;
  auto operator=(DeviceCollective&&) noexcept -> DeviceCollective& = default;
  ~DeviceCollective() override = default;

  [[nodiscard]] auto rank() const noexcept -> Rank override { return local_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return local_.size(); }

  /// Whether `DeviceGroup::request_stop` was called, as of this rank's last operation; in a world of one, as of now.
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override { return local_.stop_agreed(); }

 private:
  /// What a rank shows to the others.
  struct CallHeader {
    Call call;
    std::byte const* from;
    std::byte* to;
    cudaEvent_t ready;  ///< From then on its arrays may be touched.
  };
  static_assert(std::is_trivially_copyable_v<CallHeader>);
  using Headers = std::span<CallHeader const>;

  void perform(Task const& task) override {
    auto const& call = task.call;
    if (call.operation == Operation::barrier) return (void)open(task, nullptr);
    ready_.record(stream().stream);
    auto const headers = open(task, ready_.get());
    if (call.count == 0) return;
    work_and_finish(call, [&] {
      if (!works(call)) return;
      for (auto const& header : headers)
        detail::check_cuda(cudaStreamWaitEvent(stream().stream, header.ready, 0), "cudaStreamWaitEvent");
      work(headers, task.counts);
      ready_.record(stream().stream);
      auto const attempted = on_rank(call);
      for (detail::Backoff backoff; !ready_.is_over(attempted);) backoff.pause();
    });
  }

  /// All ranks' headers, once they have shown them and call the same. `ready`: null in a barrier.
  auto open(Task const& task, cudaEvent_t ready) -> Headers {
    if (group_->aborted_.load()) throw Stopped{};
    if (!failure_.empty()) throw detail::unusable_error(Errc::backend, failure_, {rank(), task.call});
    headers_.resize(size().value);
    local_.exchange_headers(task, CallHeader{task.call, task.from.data(), task.to.data(), ready}, std::span{headers_});
    return headers_;
  }

  /// Ranks that agree on a call work on each other's memory: whatever happens to one, it says so and waits for the
  /// others.
  template <class Work>
  void work_and_finish(Call const& call, Work const& work) {
    std::exception_ptr thrown;
    try {
      work();
    } catch (Error const& error) {
      thrown = std::current_exception();
      group_->fail("rank " + std::to_string(rank().value) + " got " + error.happened() + " in " + to_string(call));
    }
    group_->finish(++operations_);
    failure_ = group_->failure();
    if (failure_.empty()) return;
    if (thrown) std::rethrow_exception(thrown);
    throw Error{Errc::backend, on_rank(call), failure_};
  }

  [[nodiscard]] auto on_rank(Call const& call) const -> std::string {
    return to_string(call) + " on rank " + std::to_string(rank().value);
  }

  /// Whether this rank has something to put on the device: a reduction as a whole is done by one.
  [[nodiscard]] auto works(Call const& call) const noexcept -> bool {
    if (call.operation == Operation::all_reduce) return rank() == Rank{0};
    if (call.operation == Operation::reduce) return rank() == call.root;
    return true;
  }

  void work(Headers headers, std::span<std::size_t const> counts) {
    using enum Operation;
    auto const& own = headers[rank().value];
    auto const& call = own.call;
    auto const& root = headers[call.root.value];
    auto const size_each = call.count * size_bytes(call.element);
    auto const own_part = rank().value * size_each;
    switch (call.operation) {
      case barrier:
      case duplicate: break;
      case all_reduce: return reduce_all(headers, 0, nullptr);
      case reduce: return reduce_all(headers, 0, own.to);
      case reduce_scatter: return reduce_all(headers, own_part, own.to);
      case broadcast: return copy(own.to, root.from, size_each);
      case gather: return copy(root.to + own_part, own.from, size_each);
      case scatter: return copy(own.to, root.from + own_part, size_each);
      case all_gather:
        for (std::size_t from = 0; from < headers.size(); ++from)
          copy(own.to + from * size_each, headers[from].from, size_each);
        break;
      case all_gatherv: {
        auto* part = own.to;
        for (std::size_t from = 0; from < headers.size(); ++from) {
          auto const part_bytes = counts[from] * size_bytes(call.element);
          copy(part, headers[from].from, part_bytes);
          part += part_bytes;
        }
      }
    }
  }

  /// Reduces all ranks' arrays from `begin_bytes` on, into `target`, or into each of them where it is null.
  void reduce_all(Headers headers, std::size_t begin_bytes, std::byte* target) {
    auto const& call = headers[0].call;
    auto const ranks = static_cast<std::uint32_t>(headers.size());
    if (ranks == 1 && target == nullptr) return;
    detail::DeviceReduction reduction{
        .element = call.element, .op = call.op, .arrays = ranks, .divisor = ranks, .count = call.count};
    reduction.target = target;
    for (std::uint32_t from = 0; from < ranks; ++from) {
      // All ranks' arrays become the result in all_reduce alone, which gets them to be written to.
      auto const* const array = target == nullptr ? headers[from].to : headers[from].from;
      reduction.table[from] = const_cast<std::byte*>(array + begin_bytes);
    }
    detail::check_cuda(detail::reduce_on_device(reduction, stream().stream), on_rank(call));
  }

  void copy(std::byte* to, std::byte const* from, std::size_t bytes) {
    if (to == from || bytes == 0) return;
    detail::check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream().stream), "cudaMemcpyAsync");
  }

  std::shared_ptr<DeviceGroup> group_;
  LocalCollective local_;
  detail::DeviceEvent ready_;
  /// Of the group, also those before this one was made.
  std::uint64_t operations_ = group_->finished_.load() / group_->size().value;
  std::string failure_;  ///< What made the group unusable.
  std::vector<CallHeader> headers_;
};

}  // namespace raytrain
