// SPDX-License-Identifier: Apache-2.0
// For LibTorch 1.13, whose interfaces of devices are others than those of newer versions.
#include "pretended_device.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

namespace pretended_device {

namespace {

constexpr c10::DeviceIndex device_count = 2;
constexpr std::uint64_t pool_streams = 32;  // of each device, as CUDA has
constexpr std::size_t alignment_bytes = 64;
constexpr int of_no_number = 0xFF;

auto waits() -> std::vector<std::string>& {
  static thread_local std::vector<std::string> own;
  return own;
}
void note_wait(std::string_view what) { waits().emplace_back(what); }

std::atomic<bool> is_late{false};
std::atomic<bool> is_broken{false};
std::atomic<std::size_t> room_bytes{std::numeric_limits<std::size_t>::max()};

/// The streams' work, in their order. It lives as long as the process, since tensors may.
class Streams {
 public:
  static auto all() -> Streams& {
    static auto& streams = *new Streams;
    return streams;
  }

  void put(c10::Stream stream, std::function<void()> work) {
    std::scoped_lock const lock{mutex_};
    auto& own = of(stream);
    own.work.push_back(std::move(work));
    ++own.put;
  }

  /// How many works were put on it so far.
  auto position(c10::Stream stream) -> std::uint64_t {
    std::scoped_lock const lock{mutex_};
    return of(stream).put;
  }

  void run(c10::Stream stream, std::uint64_t until = std::numeric_limits<std::uint64_t>::max()) {
    std::scoped_lock const lock{mutex_};
    auto& own = of(stream);
    while (own.begun < until && !own.work.empty()) {
      auto const work = std::move(own.work.front());
      own.work.pop_front();
      ++own.begun;
      work();
    }
  }

  auto is_done(c10::Stream stream, std::uint64_t until) -> bool {
    std::scoped_lock const lock{mutex_};
    return of(stream).begun >= until;
  }

 private:
  struct Work {
    std::deque<std::function<void()>> work;
    std::uint64_t put = 0;
    std::uint64_t begun = 0;
  };

  auto of(c10::Stream stream) -> Work& { return streams_[{stream.device_index(), stream.id()}]; }

  std::recursive_mutex mutex_;  // work on one stream may run that of another one
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, Work> streams_;
};

struct OfThread {
  c10::DeviceIndex device = 0;
  std::array<c10::StreamId, device_count> streams{};
};
auto of_thread() -> OfThread& {
  static thread_local OfThread own;
  return own;
}

auto current_stream(c10::DeviceIndex device) -> c10::Stream {
  auto const index = device < 0 ? of_thread().device : device;
  return c10::Stream{c10::Stream::UNSAFE, c10::Device{type, index},
                     of_thread().streams.at(static_cast<std::size_t>(index))};
}

struct Event {
  c10::Stream stream;
  std::uint64_t position;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  auto type() const -> c10::DeviceType override { return pretended_device::type; }
  auto exchangeDevice(c10::Device device) const -> c10::Device override {
    auto const before = getDevice();
    setDevice(device);
    return before;
  }
  auto getDevice() const -> c10::Device override { return {pretended_device::type, of_thread().device}; }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) of_thread().device = device.index();
  }
  auto getStream(c10::Device device) const noexcept -> c10::Stream override { return current_stream(device.index()); }
  auto getDefaultStream(c10::Device device) const -> c10::Stream override {
    return c10::Stream{c10::Stream::DEFAULT, device.has_index() ? device : getDevice()};
  }
  auto getStreamFromGlobalPool(c10::Device device, bool) const -> c10::Stream override {
    static std::atomic<std::uint64_t> next{0};
    return c10::Stream{c10::Stream::UNSAFE, device.has_index() ? device : getDevice(),
                       static_cast<c10::StreamId>(1 + next++ % pool_streams)};
  }
  auto exchangeStream(c10::Stream stream) const noexcept -> c10::Stream override {
    auto const before = current_stream(stream.device_index());
    of_thread().streams.at(static_cast<std::size_t>(stream.device_index())) = stream.id();
    return before;
  }
  auto deviceCount() const noexcept -> c10::DeviceIndex override { return device_count; }

  void record(void** event, c10::Stream const& stream, c10::DeviceIndex, c10::EventFlag) const override {
    delete static_cast<Event*>(*event);
    *event = new Event{stream, Streams::all().position(stream)};
  }
  void block(void* event, c10::Stream const& stream) const override {
    auto const until = *static_cast<Event*>(event);
    Streams::all().put(stream, [until] { Streams::all().run(until.stream, until.position); });
  }
  auto queryEvent(void* event) const -> bool override {
    note_wait("queryEvent");
    TORCH_CHECK(!is_broken, "the pretended device is lost");
    auto const& until = *static_cast<Event*>(event);
    if (is_late && !Streams::all().is_done(until.stream, until.position)) return false;
    Streams::all().run(until.stream, until.position);
    return true;
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  auto queryStream(c10::Stream const& stream) const -> bool override {
    note_wait("queryStream");
    if (is_late && !Streams::all().is_done(stream, Streams::all().position(stream))) return false;
    Streams::all().run(stream);
    return true;
  }
  void synchronizeStream(c10::Stream const& stream) const override {
    note_wait("synchronizeStream");
    Streams::all().run(stream);
  }
  void recordDataPtrOnStream(c10::DataPtr const& memory, c10::Stream const& stream) const override;
};

/// The device's memory. It is never freed, so that nothing but wrong bytes comes of who uses it too late.
class Memory final : public c10::Allocator {
 public:
  static auto of_device() -> Memory& {
    static auto& memory = *new Memory;
    return memory;
  }

  auto allocate(std::size_t bytes) const -> c10::DataPtr override { return of_device().take(bytes); }
  auto raw_deleter() const -> c10::DeleterFnPtr override { return &give_back; }

  void use_on(void* begin, c10::Stream stream) {
    std::scoped_lock const lock{mutex_};
    auto const found = taken_.find(begin);
    if (found != taken_.end()) found->second.streams.push_back(stream);
  }

 private:
  struct Block {
    std::size_t bytes;
    std::vector<c10::Stream> streams;  // which must come to an end first
  };

  auto take(std::size_t bytes) -> c10::DataPtr {
    c10::Device const device{type, of_thread().device};
    if (bytes == 0) return {nullptr, nullptr, &give_back, device};
    if (bytes > room_bytes) TORCH_CHECK_WITH(OutOfMemoryError, false, "the pretended device is out of memory");
    auto const size = (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    std::scoped_lock const lock{mutex_};
    auto const found = free_.find(size);
    auto* const begin = found != free_.end() ? found->second : ::operator new (size, std::align_val_t{alignment_bytes});
    if (found != free_.end()) free_.erase(found);
    std::memset(begin, of_no_number, size);
    taken_.emplace(begin, Block{size, {current_stream(device.index())}});
    return {begin, begin, &give_back, device};
  }

  static void give_back(void* begin) {
    if (begin != nullptr) of_device().give_back_behind(begin);
  }

  /// Streams that come to the block's end one by one.
  void give_back_behind(void* begin) {
    std::optional<c10::Stream> next;
    {
      std::scoped_lock const lock{mutex_};
      auto& block = taken_.at(begin);
      if (block.streams.empty()) {
        std::memset(begin, of_no_number, block.bytes);
        free_.emplace(block.bytes, begin);
        taken_.erase(begin);
        return;
      }
      next = block.streams.back();
      block.streams.pop_back();
    }
    auto& streams = Streams::all();
    if (streams.is_done(*next, streams.position(*next))) return give_back_behind(begin);
    streams.put(*next, [this, begin] { give_back_behind(begin); });
  }

  std::recursive_mutex mutex_;
  std::multimap<std::size_t, void*> free_;  // by size
  std::map<void*, Block> taken_;
};

void Guard::recordDataPtrOnStream(c10::DataPtr const& memory, c10::Stream const& stream) const {
  Memory::of_device().use_on(memory.get(), stream);
}

/// CPU memory to and from which the device copies by itself.
class PinnedMemory final : public c10::Allocator {
 public:
  static auto of_process() -> PinnedMemory& {
    static auto& memory = *new PinnedMemory;
    return memory;
  }

  auto holds(void const* at) -> bool {
    std::scoped_lock const lock{mutex_};
    auto const behind = taken_.upper_bound(static_cast<std::byte const*>(at));
    if (behind == taken_.begin()) return false;
    auto const& [begin, bytes] = *std::prev(behind);
    return at < begin + bytes;
  }

  auto allocate(std::size_t bytes) const -> c10::DataPtr override { return of_process().take(bytes); }
  auto raw_deleter() const -> c10::DeleterFnPtr override { return &give_back; }

 private:
  auto take(std::size_t bytes) -> c10::DataPtr {
    auto* const begin = ::operator new (std::max(bytes, alignment_bytes), std::align_val_t{alignment_bytes});
    std::memset(begin, of_no_number, bytes);
    std::scoped_lock const lock{mutex_};
    taken_.emplace(static_cast<std::byte const*>(begin), std::max(bytes, alignment_bytes));
    return {begin, begin, &give_back, c10::Device{c10::kCPU}};
  }
  static void give_back(void* begin) {
    auto& memory = of_process();
    std::scoped_lock const lock{memory.mutex_};
    memory.taken_.erase(static_cast<std::byte const*>(begin));
    ::operator delete (begin, std::align_val_t{alignment_bytes});
  }

  std::mutex mutex_;
  std::map<std::byte const*, std::size_t> taken_;
};

/// The same elements as the CPU's, which do not keep the memory.
auto on_cpu(at::Tensor const& tensor) -> at::Tensor {
  if (!tensor.defined() || tensor.device().type() != type) return tensor;
  auto const& storage = tensor.storage();
  c10::Storage same{c10::Storage::use_byte_size_t{}, storage.nbytes(),
                    c10::DataPtr{const_cast<void*>(static_cast<void const*>(storage.data())), c10::Device{c10::kCPU}}};
  auto view = at::detail::make_tensor<c10::TensorImpl>(std::move(same), c10::DispatchKeySet{c10::DispatchKey::CPU},
                                                       tensor.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return view;
}

auto shares_storage(at::Tensor const& left, at::Tensor const& right) -> bool {
  return left.storage().unsafeGetStorageImpl() == right.storage().unsafeGetStorageImpl();
}

/// One call of an operation of the device's tensors.
class Call {
 public:
  Call(c10::OperatorHandle const& operation, torch::jit::Stack& stack)
      : operation_{operation}, stack_{stack}, device_{type, of_thread().device} {}

  void run() {
    auto const arguments = operation_.schema().arguments().size();
    for (auto i = stack_.size() - arguments; i < stack_.size(); ++i) stack_[i] = shown(stack_[i]);
    Streams::all().run(current_stream(device_.index()));
    at::AutoDispatchBelowADInplaceOrView const below_autograd;
    operation_.callBoxed(&stack_);
    auto const results = operation_.schema().returns().size();
    for (auto i = stack_.size() - results; i < stack_.size(); ++i) {
      auto& result = stack_[i];
      if (result.isTensor()) {
        result = given_back(result.toTensor());
      } else if (result.isTensorList()) {
        c10::List<at::Tensor> list;
        for (auto const& tensor : result.toTensorVector()) list.push_back(given_back(tensor));
        result = std::move(list);
      } else if (!shown_.empty()) {
        note_wait(operation_.schema().name());  // for a value that the CPU has
      }
    }
    // For a shape that the CPU has.
    for (auto const* const name : {"aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim"}) {
      if (operation_.schema().name() == name) note_wait(name);
    }
  }

 private:
  auto shown(c10::IValue const& value) -> c10::IValue {
    if (value.isTensor()) return shown(value.toTensor());
    if (value.isDevice() && value.toDevice().type() == type) return c10::IValue{c10::Device{c10::kCPU}};
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (auto const& tensor : value.toTensorVector()) list.push_back(shown(tensor));
      return list;
    }
    if (value.isList() && value.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
      auto list = value.toList().copy();
      for (std::size_t i = 0; i < list.size(); ++i) {
        c10::IValue const each = list.get(i);
        if (each.isTensor()) list.set(i, shown(each.toTensor()));
      }
      return list;
    }
    return value;
  }
  auto shown(at::Tensor const& tensor) -> at::Tensor {
    if (!tensor.defined() || tensor.device().type() != type) return tensor;
    device_ = tensor.device();
    auto const may_grow = tensor.numel() == 0;  // the place of a result
    shown_.emplace_back(tensor,
                        may_grow ? at::empty(tensor.sizes(), tensor.options().device(c10::kCPU)) : on_cpu(tensor));
    return shown_.back().second;
  }

  auto given_back(at::Tensor const& result) const -> at::Tensor {
    if (!result.defined()) return result;
    for (auto const& [own, view] : shown_) {
      if (result.is_same(view)) {
        if (own.sizes() == view.sizes()) return own;
        auto const grown = copied(view);
        own.unsafeGetTensorImpl()->set_storage_keep_dtype(grown.storage());
        own.unsafeGetTensorImpl()->set_sizes_and_strides(grown.sizes(), grown.strides());
        return own;
      }
      if (!shares_storage(result, view)) continue;
      auto part = at::detail::make_tensor<c10::TensorImpl>(c10::Storage{own.storage()}, own.key_set(), own.dtype());
      part.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides(), result.storage_offset());
      return part;
    }
    return copied(result);
  }
  auto copied(at::Tensor const& result) const -> at::Tensor {
    auto own = at::empty_strided(result.sizes(), result.strides(), result.options().device(device_));
    on_cpu(own).copy_(result);
    return own;
  }

  c10::OperatorHandle const& operation_;
  torch::jit::Stack& stack_;
  c10::Device device_;
  std::vector<std::pair<at::Tensor, at::Tensor>> shown_;  // of the device, and as the CPU's
};

void call(c10::OperatorHandle const& operation, torch::jit::Stack* stack) { Call{operation, *stack}.run(); }

auto type_of(c10::optional<at::ScalarType> given) -> at::ScalarType {
  return given ? *given : c10::typeMetaToScalarType(c10::get_default_dtype());
}

auto empty(c10::SymIntArrayRef size, c10::optional<at::ScalarType> dtype, c10::optional<at::Layout>,
           c10::optional<at::Device> device, c10::optional<bool>, c10::optional<at::MemoryFormat> format)
    -> at::Tensor {
  c10::OptionalDeviceGuard const there{device};
  return at::detail::empty_generic(c10::asIntArrayRefSlow(size), &Memory::of_device(),
                                   c10::DispatchKeySet{c10::DispatchKey::XPU}, type_of(dtype), format);
}

auto empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, c10::optional<at::ScalarType> dtype,
                   c10::optional<at::Layout>, c10::optional<at::Device> device, c10::optional<bool>) -> at::Tensor {
  c10::OptionalDeviceGuard const there{device};
  return at::detail::empty_strided_generic(c10::asIntArrayRefSlow(size), c10::asIntArrayRefSlow(stride),
                                           &Memory::of_device(), c10::DispatchKeySet{c10::DispatchKey::XPU},
                                           type_of(dtype));
}

auto copy(at::Tensor& self, at::Tensor const& from, bool non_blocking) -> at::Tensor& {
  if (self.numel() == 0) return self;
  auto const& beside = self.is_cpu() ? self : from;  // the CPU's, if there is one
  auto const stream = current_stream((self.is_cpu() ? from : self).device().index());
  // What is the CPU's is kept alive, as LibTorch keeps pinned memory.
  Streams::all().put(stream, [to = on_cpu(self), from = on_cpu(from)] {
    at::AutoDispatchBelowADInplaceOrView const below_autograd;
    to.copy_(from);
  });
  if (!beside.is_cpu() || (non_blocking && PinnedMemory::of_process().holds(beside.data_ptr()))) return self;
  note_wait(self.is_cpu() ? "a copy to CPU memory" : "a copy from CPU memory");
  Streams::all().run(stream);
  return self;
}

auto set(at::Tensor& self, c10::Storage storage, c10::SymInt offset, c10::SymIntArrayRef size,
         c10::SymIntArrayRef stride) -> at::Tensor& {
  auto* const tensor = self.unsafeGetTensorImpl();
  tensor->set_storage_keep_dtype(std::move(storage));
  tensor->set_sizes_and_strides(c10::asIntArrayRefSlow(size), c10::asIntArrayRefSlow(stride), offset.expect_int());
  return self;
}

auto value_of(at::Tensor const& self) -> at::Scalar {
  note_wait("item");
  Streams::all().run(current_stream(self.device().index()));
  return at::_local_scalar_dense(on_cpu(self));
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  Guard{}.recordDataPtrOnStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(_, XPU, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&call>()); }

TORCH_LIBRARY_IMPL(aten, XPU, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("copy_", &copy);
  library.impl("set_.source_Storage_storage_offset", &set);
  library.impl("_local_scalar_dense", &value_of);
  library.impl("record_stream", &record_stream);
}

C10_REGISTER_GUARD_IMPL(XPU, Guard)

}  // namespace

auto take_waits() -> std::vector<std::string> { return std::exchange(waits(), {}); }

Late::Late() { is_late = true; }
void Late::end() noexcept { is_late = false; }
Broken::Broken() { is_broken = true; }
Broken::~Broken() { is_broken = false; }
Full::Full(std::size_t most_bytes) { room_bytes = most_bytes; }
Full::~Full() { room_bytes = std::numeric_limits<std::size_t>::max(); }

/// Whom LibTorch 1.13 asks for pinned memory.
struct CUDAHooks final : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  auto getPinnedMemoryAllocator() const -> c10::Allocator* override { return &PinnedMemory::of_process(); }
  auto isPinnedPtr(void* at) const -> bool override { return PinnedMemory::of_process().holds(at); }
};

}  // namespace pretended_device

namespace at {
using pretended_device::CUDAHooks;
REGISTER_CUDA_HOOKS(CUDAHooks)
}  // namespace at

namespace torch::autograd {

// In place of LibTorch's own, as which 1.13 would run the backwards of all workers in one thread of the device, where
// they would wait for each other. Here each runs in its own thread, as raytrain has newer versions do it.
auto Engine::ready_queue(std::shared_ptr<ReadyQueue> cpu_ready_queue, at::Device) -> std::shared_ptr<ReadyQueue> {
  return cpu_ready_queue;
}

}  // namespace torch::autograd
