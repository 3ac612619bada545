// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/backend/torch/detail/nccl_arrays.hpp>
#include <raytrain/backend/torch/detail/nccl_library.hpp>
#include <raytrain/backend/torch/detail/tensor_over.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/collective/waiting.hpp>
#include <raytrain/core/call_apart.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/signs_of_life.hpp>

namespace raytrain::detail {

/// As CUDA calls it; null for a device without streams.
RAYTRAIN_TORCH_INLINE auto native_stream(at::Device device) -> void* {
  auto const stream = current_stream(device);
  auto const handle = [](auto const& of) -> void* {
    if constexpr (TellsNativeStream<decltype(of)>) return of.native_handle();
    return nullptr;  // nobody comes here with it
  };
  return stream ? handle(*stream) : nullptr;
}

RAYTRAIN_TORCH_INLINE NcclArrays::NcclArrays(Options options)
    : NcclArrays{agreed_id(options.library, *options.through_memory), std::move(options)} {}

RAYTRAIN_TORCH_INLINE NcclArrays::NcclArrays(NcclLibrary::UniqueId const& id, Options options)
    : DeviceArrays{std::move(options.through_memory), options.device},
      library_{options.library},
      limits_{std::move(options.limits)},
      stop_token_{std::move(options.stop)},
      abort_token_{std::move(options.abort)} {
  try {
    connect(id);
  } catch (...) {
    end();
    throw;
  }
}

RAYTRAIN_TORCH_INLINE auto NcclArrays::agreed_id(NcclLibrary const& library, Collective& by) -> NcclLibrary::UniqueId {
  NcclLibrary::UniqueId id;
  if (by.rank() == Rank{0}) library.check(library.get_unique_id(&id), "agreeing on a communicator of NCCL");
  by.broadcast(std::span<std::uint8_t>{reinterpret_cast<std::uint8_t*>(id.bytes.data()), id.bytes.size()}, Rank{0});
  return id;
}

RAYTRAIN_TORCH_INLINE void NcclArrays::connect(NcclLibrary::UniqueId const& id) {
  auto const what = "connecting by NCCL on " + device().str();
  NcclLibrary::Config config;
  auto const ranks = static_cast<int>(size().value);
  auto const result = library_.comm_init_rank_config(&comm_, ranks, id, static_cast<int>(rank().value), &config);
  when_aborted_.emplace(abort_token_, Abort{this});
  library_.check(result, on_rank(what));
  wait_until_ready(what);
}

RAYTRAIN_TORCH_INLINE NcclArrays::~NcclArrays() {
  finish();
  end();
}

RAYTRAIN_TORCH_INLINE void NcclArrays::end() noexcept {
  when_aborted_.reset();
  abort();
  if (aborted_.valid()) (void)aborted_.wait_for(moment);
}

RAYTRAIN_TORCH_INLINE void NcclArrays::finish() noexcept {
  SignsOfLife::During const waits{SignsOfLife::Activity::waits};
  using std::chrono::milliseconds;
  // Other ranks of the host end NCCL's work together with this one, but not if they go on, or are lost.
  auto const limit = stop_token_.stop_requested() ? moment : milliseconds{5'000};
  constexpr std::chrono::microseconds pause{50};
  WaitLimits const stream_limits{.timeout = has_failed() ? std::min(moment, limits_.timeout) : limits_.timeout};
  Waiting const waiting{stream_limits};
  Backoff backoff{CoreUse::shared};
  auto const is_aborted = [this] {
    std::scoped_lock const lock{mutex_};
    return comm_ == nullptr;
  };
  try {
    auto const stream = current_stream(device());
    for (std::chrono::nanoseconds waited{0}; stream && !stream->query() && !is_aborted(); waited = backoff.pause()) {
      if (waiting.is_too_long(waited)) return;  // a kernel of NCCL's may never end
    }
    if (has_failed()) return;
    auto state = NcclLibrary::success;
    {
      std::scoped_lock const lock{mutex_};
      if (comm_ == nullptr) return;
      state = library_.comm_finalize(comm_);
    }
    auto const end = std::chrono::steady_clock::now() + limit;
    while (state == NcclLibrary::in_progress && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(pause);
      std::scoped_lock const lock{mutex_};
      if (comm_ == nullptr || library_.comm_get_async_error(comm_, &state) != NcclLibrary::success) return;
    }
    std::scoped_lock const lock{mutex_};
    if (state == NcclLibrary::success && comm_ != nullptr) {
      (void)library_.comm_destroy(std::exchange(comm_, nullptr));
    }
  } catch (...) {
    return;  // what is wrong with the GPU, its next user is told
  }
}

RAYTRAIN_TORCH_INLINE void NcclArrays::abort() noexcept {
  std::scoped_lock const lock{mutex_};
  if (comm_ == nullptr) return;
  aborted_ = call_apart([abort = library_.comm_abort, comm = std::exchange(comm_, nullptr), device = device()] {
    // Otherwise CUDA takes memory of the first GPU for this thread.
    if (!device.is_cpu()) c10::impl::VirtualGuardImpl{device.type()}.uncheckedSetDevice(device);
    (void)abort(comm);
  });
}

RAYTRAIN_TORCH_INLINE auto NcclArrays::on_rank(std::string const& what) const -> std::string {
  return what + " on rank " + std::to_string(rank().value);
}

RAYTRAIN_TORCH_INLINE auto NcclArrays::is_ready(std::string const& attempted) -> bool {
  std::scoped_lock const lock{mutex_};
  if (comm_ == nullptr) throw Stopped{};
  auto state = NcclLibrary::success;
  library_.check(library_.comm_get_async_error(comm_, &state), attempted);
  library_.check(state, attempted);
  return state != NcclLibrary::in_progress;
}

RAYTRAIN_TORCH_INLINE void NcclArrays::wait_until_ready(std::string const& what) {
  auto const attempted = on_rank(what);
  Waiting waiting{limits_};
  Backoff backoff{CoreUse::shared};  // NCCL has threads of its own
  for (std::chrono::nanoseconds waited{0}; !is_ready(attempted); waited = backoff.pause()) {
    if (waiting.is_to_warn(waited)) {
      waiting.warn([&] { return late_warning({{}, limits_.warn_after}, rank(), what); });
    }
    if (!waiting.is_too_long(waited)) continue;
    // It is aborted when this ends, behind what the worker's failure gives up: a GPU goes on behind an abort.
    late_ = late_error({{}, limits_.timeout}, rank(), what);
    throw *late_;
  }
}

RAYTRAIN_TORCH_INLINE auto NcclArrays::duplicate() -> std::unique_ptr<Collective> {
  auto own = through_memory().duplicate();
  auto const id = agreed_id(library_, through_memory());
  return std::unique_ptr<Collective>{new NcclArrays{id,
                                                    {.library = library_,
                                                     .through_memory = std::move(own),
                                                     .device = device(),
                                                     .limits = limits_,
                                                     .stop = stop_token_,
                                                     .abort = abort_token_}}};
}

RAYTRAIN_TORCH_INLINE void NcclArrays::perform(Task const& task) {
  if (late_) throw *late_;
  auto const operation = task.call.operation;
  auto const is_through_memory =
      operation == Operation::gather || operation == Operation::scatter || operation == Operation::all_gatherv ||
      (task.reducers != nullptr && !computed_type(task.call.element) &&
       (task.call.op == ReduceOp::average || !NcclLibrary::reduction(task.call.element, task.call.op)));
  if (is_through_memory) return exchange_through_memory(task, through_memory(), device());
  through_memory().start({.call = {.operation = Operation::barrier}, .of = &task.compared()}).wait();
  if (operation == Operation::barrier || task.call.count == 0) return;
  torch::NoGradGuard const no_grad;
  work(task, native_stream(device()));
}

RAYTRAIN_TORCH_INLINE void NcclArrays::work(Task const& task, void* stream) {
  auto const& call = task.call;
  auto const what = to_string(call);
  auto const attempted = on_rank(what);
  auto const bytes = call.count * size_bytes(call.element);
  auto const in_nccl = [&](auto const& enqueue) {
    {
      std::scoped_lock const lock{mutex_};
      if (comm_ == nullptr) throw Stopped{};
      library_.check(enqueue(), attempted);
    }
    wait_until_ready(what);
  };
  auto const copy = [&](auto const& function, auto... root) {
    in_nccl([&] {
      return function(task.from.empty() ? task.to.data() : task.from.data(), task.to.data(), bytes, NcclLibrary::bytes,
                      root..., comm_, stream);
    });
  };
  if (call.operation == Operation::broadcast) return copy(library_.broadcast, static_cast<int>(call.root.value));
  if (call.operation == Operation::all_gather) return copy(library_.all_gather);
  auto const has_result = !task.to.empty();
  if (auto const native = NcclLibrary::reduction(call.element, call.op)) {
    in_nccl([&] { return result_of(*native, task, stream); });
    if (!has_result || call.op != ReduceOp::average) return;
    auto const type = *computed_type(call.element);
    divide(tensor_over(task.to.data(), {static_cast<std::int64_t>(call.count)}, type, device()), size().value);
    return;
  }
  auto const parts = call.operation == Operation::reduce_scatter ? size().value : 1U;
  auto const all = at::empty({static_cast<std::int64_t>(bytes * parts * size().value)},
                             at::TensorOptions{at::kByte}.device(device()));
  in_nccl([&] {
    return library_.all_gather(task.from.data(), all.data_ptr(), bytes * parts, NcclLibrary::bytes, comm_, stream);
  });
  if (!has_result) return;
  std::vector<std::byte const*> arrays;
  auto const own_part = parts == 1 ? 0 : rank().value * bytes;
  for (std::uint32_t from = 0; from < size().value; ++from) {
    arrays.push_back(static_cast<std::byte const*>(all.data_ptr()) + from * bytes * parts + own_part);
  }
  reduce_arrays(call, arrays, task.to.data(), device());
}

RAYTRAIN_TORCH_INLINE auto NcclArrays::result_of(NcclLibrary::Reduction const& native, Task const& task, void* stream)
    -> int {
  auto const& call = task.call;
  switch (call.operation) {
    case Operation::reduce_scatter:
      return library_.reduce_scatter(task.from.data(), task.to.data(), call.count, native.type, native.op, comm_,
                                     stream);
    case Operation::reduce:
      return library_.reduce(task.from.data(), task.to.data(), call.count, native.type, native.op,
                             static_cast<int>(call.root.value), comm_, stream);
    default:
      return library_.all_reduce(task.from.data(), task.to.data(), call.count, native.type, native.op, comm_, stream);
  }
}

}  // namespace raytrain::detail
