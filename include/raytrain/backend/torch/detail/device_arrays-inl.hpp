// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/backend/torch/detail/tensor_over.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE auto computed_type(ElementType element) noexcept -> std::optional<at::ScalarType> {
  switch (element) {
    case ElementType::float32: return at::kFloat;
    case ElementType::float64: return at::kDouble;
    case ElementType::float16: return at::kHalf;
    case ElementType::bfloat16: return at::kBFloat16;
    case ElementType::int8: return at::kChar;
    case ElementType::int16: return at::kShort;
    case ElementType::int32: return at::kInt;
    case ElementType::int64: return at::kLong;
    case ElementType::uint8: return at::kByte;
    case ElementType::uint16:
    case ElementType::uint32:
    case ElementType::uint64: break;
  }
  return std::nullopt;
}

RAYTRAIN_TORCH_INLINE void exchange_through_memory(Task const& task, Collective& through_memory, at::Device device) {
  torch::NoGradGuard const no_grad;
  auto const on_device = [&](std::byte const* begin, std::size_t bytes) {
    return tensor_over(const_cast<std::byte*>(begin), {static_cast<std::int64_t>(bytes)}, at::kByte, device);
  };
  auto const copied = [&](std::byte const* begin, std::size_t bytes) {
    auto const array = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
    if (bytes > 0) array.copy_(on_device(begin, bytes));
    return array;
  };
  auto const from = copied(task.from.data(), task.from.size());
  auto const is_in_place = task.from.data() == task.to.data() && task.from.size() == task.to.size();
  auto const to = is_in_place ? from : copied(task.to.data(), task.to.size());
  auto in_memory = task;
  in_memory.from = {static_cast<std::byte const*>(from.data_ptr()), task.from.size()};
  in_memory.to = {static_cast<std::byte*>(to.data_ptr()), task.to.size()};
  through_memory.start(in_memory).wait();
  if (!task.to.empty()) on_device(task.to.data(), task.to.size()).copy_(to);
}

RAYTRAIN_TORCH_INLINE void divide(at::Tensor const& sum, std::size_t ranks) {
  // On the device: by a number of the CPU's CUDA would multiply with its reciprocal.
  auto const divisor = at::full({}, static_cast<std::int64_t>(ranks), sum.options());
  sum.is_floating_point() ? sum.div_(divisor) : sum.div_(divisor, "trunc");
}

RAYTRAIN_TORCH_INLINE void reduce_arrays(Call const& call, std::span<std::byte const* const> arrays, std::byte* target,
                                         at::Device device) {
  if (call.count == 0) return;
  auto const type = *computed_type(call.element);
  auto const array = [&](std::byte const* begin) {
    return tensor_over(const_cast<std::byte*>(begin), {static_cast<std::int64_t>(call.count)}, type, device);
  };
  auto const result = array(target);
  auto const is_wide = type != at::kHalf && type != at::kBFloat16;
  auto const is_in_place = is_wide && target == arrays[0];
  // In its place only where that is the first array: it would be another one's before that is read.
  auto const sum = is_in_place ? result : is_wide ? array(arrays[0]).clone() : array(arrays[0]).to(at::kFloat);
  for (std::size_t rank = 1; rank < arrays.size(); ++rank) {
    auto const next = array(arrays[rank]);
    switch (call.op) {
      case ReduceOp::sum:
      case ReduceOp::average: sum.add_(next); break;
      case ReduceOp::product: sum.mul_(next); break;
      case ReduceOp::min: sum.copy_(at::minimum(sum, next)); break;
      case ReduceOp::max: sum.copy_(at::maximum(sum, next)); break;
    }
  }
  if (call.op == ReduceOp::average) divide(sum, arrays.size());
  if (!is_in_place) result.copy_(sum);
}

RAYTRAIN_TORCH_INLINE auto current_stream(at::Device device) -> std::optional<c10::Stream> {
  if (device.is_cpu()) return std::nullopt;
  return c10::impl::VirtualGuardImpl{device.type()}.getStream(device);
}

RAYTRAIN_TORCH_INLINE auto DeviceArrays::start(Task const& task) -> Pending {
  if (auto const stream = current_stream(device_)) refuse_capture(*stream, task.call, rank());
  for (auto const* const array : {task.from.data(), static_cast<std::byte const*>(task.to.data())}) {
    if (array == nullptr || !device_.is_cuda()) continue;  // of no other LibTorch 1.13 can tell
    try {
      (void)at::globalContext().getDeviceFromPtr(const_cast<std::byte*>(array), device_.type());
    } catch (c10::Error const&) {
      throw Error{Errc::invalid_call, to_string(task.call) + " on rank " + std::to_string(rank().value),
                  "an array is in CPU memory, and this collective takes those in the memory of " + device_.str(),
                  "give it the data_ptr() of a tensor there, or use ctx.collective()"};
    }
  }
  perform(task);
  return {};
}

RAYTRAIN_TORCH_INLINE auto DeviceArrays::allocate_zeros(std::size_t size_bytes) -> std::shared_ptr<void> {
  auto const memory = at::zeros({static_cast<std::int64_t>(size_bytes)}, at::TensorOptions{at::kByte}.device(device_));
  return {memory.data_ptr(), [memory](void*) {}};
}

RAYTRAIN_TORCH_INLINE auto SharedEvents::of(std::uint64_t key, WorldSize size, at::DeviceType type)
    -> std::shared_ptr<SharedEvents> {
  static std::mutex mutex;
  static std::map<std::uint64_t, std::weak_ptr<SharedEvents>> all;
  std::scoped_lock const lock{mutex};
  std::erase_if(all, [&](auto const& each) { return each.first != key && each.second.expired(); });
  auto events = all[key].lock();
  if (events == nullptr) all[key] = events = std::make_shared<SharedEvents>(size, type);
  return events;
}

RAYTRAIN_TORCH_INLINE auto SharedEvents::new_key() noexcept -> std::uint64_t {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

RAYTRAIN_TORCH_INLINE SharedEvents::SharedEvents(WorldSize size, at::DeviceType type) {
  for (std::uint32_t rank = 0; type != at::kCPU && rank < size.value; ++rank) {
    by_rank.push_back({c10::Event{type}, c10::Event{type}});
  }
}

RAYTRAIN_TORCH_INLINE SharedDeviceArrays::SharedDeviceArrays(std::shared_ptr<Collective> through_memory,
                                                             at::Device device)
    : SharedDeviceArrays{agreed_key(*through_memory), std::move(through_memory), device} {}

RAYTRAIN_TORCH_INLINE SharedDeviceArrays::SharedDeviceArrays(std::uint64_t key,
                                                             std::shared_ptr<Collective> through_memory,
                                                             at::Device device)
    : DeviceArrays{std::move(through_memory), device},
      events_{SharedEvents::of(key, size(), device.type())},
      shown_(size().value) {}

RAYTRAIN_TORCH_INLINE auto SharedDeviceArrays::agreed_key(Collective& by) -> std::uint64_t {
  std::vector<std::uint64_t> key{SharedEvents::new_key()};
  by.broadcast(key, Rank{0});
  return key[0];
}

RAYTRAIN_TORCH_INLINE auto SharedDeviceArrays::duplicate() -> std::unique_ptr<Collective> {
  auto own = through_memory().duplicate();
  return std::unique_ptr<Collective>{new SharedDeviceArrays{agreed_key(through_memory()), std::move(own), device()}};
}

RAYTRAIN_TORCH_INLINE void SharedDeviceArrays::perform(Task const& task) {
  // What nobody needs fast: types that LibTorch lacks, and counts, of which the ranks' differences have their own text.
  if ((task.reducers != nullptr && !computed_type(task.call.element)) ||
      task.call.operation == Operation::all_gatherv) {
    return exchange_through_memory(task, through_memory(), device());
  }
  torch::NoGradGuard const no_grad;
  record(&SharedEvents::OfRank::ready);
  exchange(task);
  wait_for(&SharedEvents::OfRank::ready);
  work(task);
  record(&SharedEvents::OfRank::done);
  through_memory().start({.call = {.operation = Operation::barrier}, .of = &task.compared()}).wait();
  wait_for(&SharedEvents::OfRank::done);
}

RAYTRAIN_TORCH_INLINE void SharedDeviceArrays::exchange(Task const& task) {
  static_assert(std::is_trivially_copyable_v<Shown>);
  Shown const own{task.from.data(), task.to.data()};
  Call const call{.operation = Operation::all_gather, .element = ElementType::uint8, .count = sizeof(Shown)};
  through_memory()
      .start({.call = call,
              .from = std::as_bytes(std::span{&own, 1}),
              .to = std::as_writable_bytes(std::span{shown_}),
              .of = &task.compared()})
      .wait();
}

RAYTRAIN_TORCH_INLINE void SharedDeviceArrays::record(c10::Event SharedEvents::OfRank::*point) const {
  if (auto const stream = current_stream(device())) (events_->by_rank[rank().value].*point).record(*stream);
}

RAYTRAIN_TORCH_INLINE void SharedDeviceArrays::wait_for(c10::Event SharedEvents::OfRank::*point) const {
  for (std::size_t other = 0; other < events_->by_rank.size(); ++other) {
    if (other != rank().value) (events_->by_rank[other].*point).block(*current_stream(device()));
  }
}

RAYTRAIN_TORCH_INLINE void SharedDeviceArrays::work(Task const& task) {
  auto const& call = task.call;
  auto const part_bytes = call.count * size_bytes(call.element);
  auto const own_part = rank().value * part_bytes;
  auto const& root = shown_[call.root.value];
  auto* const to = task.to.data();
  auto const gather_all = [&] {
    for (std::size_t from = 0; from < shown_.size(); ++from)
      copy(to + from * part_bytes, shown_[from].from, part_bytes);
  };
  switch (call.operation) {
    case Operation::barrier:
    case Operation::duplicate:
    case Operation::all_gatherv: break;
    case Operation::all_reduce:
      if (rank() != Rank{0}) break;
      reduce(call, 0, to);
      for (auto const& each : shown_) copy(each.to, to, part_bytes);
      break;
    case Operation::reduce:
      if (rank() == call.root) reduce(call, 0, to);
      break;
    case Operation::reduce_scatter: reduce(call, own_part, to); break;
    case Operation::broadcast: copy(to, root.from, part_bytes); break;
    case Operation::scatter: copy(to, root.from + own_part, part_bytes); break;
    case Operation::all_gather: gather_all(); break;
    case Operation::gather:
      if (rank() == call.root) gather_all();
      break;
  }
}

RAYTRAIN_TORCH_INLINE void SharedDeviceArrays::reduce(Call const& call, std::size_t begin_bytes, std::byte* target) {
  std::vector<std::byte const*> arrays;
  for (auto const& each : shown_) arrays.push_back(each.from + begin_bytes);
  reduce_arrays(call, arrays, target, device());
}

RAYTRAIN_TORCH_INLINE void SharedDeviceArrays::copy(std::byte* to, std::byte const* from, std::size_t bytes) const {
  if (to == from || bytes == 0) return;
  auto const array = [&](std::byte const* begin) {
    return tensor_over(const_cast<std::byte*>(begin), {static_cast<std::int64_t>(bytes)}, at::kByte, device());
  };
  array(to).copy_(array(from), true);
}

RAYTRAIN_TORCH_INLINE auto ArraysThroughMemory::duplicate() -> std::unique_ptr<Collective> {
  return std::make_unique<ArraysThroughMemory>(through_memory().duplicate(), device());
}

RAYTRAIN_TORCH_INLINE void ArraysThroughMemory::perform(Task const& task) {
  exchange_through_memory(task, through_memory(), device());
}

}  // namespace raytrain::detail
