// SPDX-License-Identifier: Apache-2.0
#include "fake_gpu.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/collective/cuda/detail/device_reduction.hpp>
#include <raytrain/collective/cuda/detail/reduce_elements.hpp>
#include <raytrain/collective/detail/combine.hpp>

// What a handle points to --------------------------------------------------------------------------------------------

namespace {

/// Returns whether it is done; it is called again until it is.
using Work = std::function<bool()>;

struct Stream {
  std::deque<Work> queue;
  std::uint64_t put = 0;
  std::uint64_t done = 0;
};

struct Clique;

}  // namespace

struct CUevent_st {
  Stream* stream = nullptr;
  std::uint64_t position = 0;
};

struct ncclComm {
  std::shared_ptr<Clique> clique;
  std::uint32_t rank = 0;
  bool aborted = false;
  int polls_left = 0;
  std::uint64_t operations = 0;
  Stream* stream = nullptr;
  std::vector<Work> pending;
};

namespace {

struct Allocation {
  std::size_t size;
  int device;
  cudaMemoryType type;
};

/// One rank's part in an operation of all.
struct Part {
  std::string name;
  std::byte const* from;
  std::byte* to;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
};

struct Clique {
  std::uint32_t size;
  std::map<std::uint32_t, int> device_by_rank;
  struct Operation {
    std::map<std::uint32_t, Part> parts;
    bool done = false;
  };
  std::map<std::uint64_t, Operation> operations;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<std::vector<std::byte>>> mail;
  ncclResult_t error = ncclSuccess;
  std::uint32_t aborted = 0;  // ranks
};

struct World {
  std::mutex mutex;
  std::condition_variable aborted;  // a communicator
  fake_gpu::Behaviour behaviour;
  fake_gpu::Counts counts;
  std::map<std::uintptr_t, Allocation> memory;
  std::map<std::pair<void*, int>, std::unique_ptr<Stream>> streams;
  std::map<std::string, cudaError_t> faults;
  std::map<std::string, std::shared_ptr<Clique>> cliques;
  std::map<std::uint32_t, ncclResult_t> broken;
  std::vector<std::unique_ptr<ncclComm>> communicators;
  std::size_t events = 0;
  std::size_t open_communicators = 0;
  std::uint64_t ids = 0;
};

auto world() -> World& {
  static World instance;
  return instance;
}

thread_local int current_device = 0;
thread_local int group_depth = 0;
thread_local std::vector<std::pair<ncclComm*, std::pair<Stream*, Work>>> grouped;

auto stream_of(cudaStream_t handle) -> Stream& {
  auto& stream = world().streams[{handle, current_device}];
  if (!stream) stream = std::make_unique<Stream>();
  return *stream;
}

void put(Stream& stream, Work work) {
  stream.queue.push_back(std::move(work));
  ++stream.put;
}

void do_what_can_be_done() {
  for (bool progress = true; progress;) {
    progress = false;
    for (auto& [key, stream] : world().streams) {
      while (!stream->queue.empty() && stream->queue.front()()) {
        stream->queue.pop_front();
        ++stream->done;
        progress = true;
      }
    }
  }
}

auto fault(std::string const& function) -> cudaError_t {
  auto const found = world().faults.find(function);
  if (found == world().faults.end()) return cudaSuccess;
  auto const result = found->second;
  world().faults.erase(found);
  return result;
}

auto allocate(void** memory, std::size_t size, cudaMemoryType type) -> cudaError_t {
  *memory = std::aligned_alloc(256, (size + 255) / 256 * 256);
  world().memory[reinterpret_cast<std::uintptr_t>(*memory)] = {size, current_device, type};
  return cudaSuccess;
}

auto release(void* memory) -> cudaError_t {
  if (memory != nullptr && world().memory.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0)
    return cudaErrorInvalidValue;
  std::free(memory);
  return cudaSuccess;
}

}  // namespace

namespace fake_gpu {

void reset() {
  std::scoped_lock const lock{world().mutex};
  world().behaviour = {};
  world().counts = {};
  world().faults.clear();
  world().broken.clear();
}

void change(Behaviour const& behaviour) {
  std::scoped_lock const lock{world().mutex};
  world().behaviour = behaviour;
}

auto counts() -> Counts {
  std::scoped_lock const lock{world().mutex};
  return world().counts;
}

void fail_next(std::string const& function, cudaError_t result) {
  std::scoped_lock const lock{world().mutex};
  world().faults[function] = result;
}

void break_communicator(std::uint32_t rank, ncclResult_t result) {
  std::scoped_lock const lock{world().mutex};
  world().broken[rank] = result;
}

auto leaked() -> std::size_t {
  std::scoped_lock const lock{world().mutex};
  auto sum = world().events + world().open_communicators;
  for (auto const& [at, allocation] : world().memory) sum += allocation.size;
  return sum;
}

}  // namespace fake_gpu

// CUDA ---------------------------------------------------------------------------------------------------------------

extern "C" {

auto cudaGetDeviceCount(int* count) -> cudaError_t {
  std::scoped_lock const lock{world().mutex};
  *count = world().behaviour.devices;
  return world().behaviour.device_count_result;
}
auto cudaGetDevice(int* device) -> cudaError_t {
  *device = current_device;
  return cudaSuccess;
}
auto cudaSetDevice(int device) -> cudaError_t {
  current_device = device;
  return cudaSuccess;
}
auto cudaGetLastError() -> cudaError_t { return cudaSuccess; }
auto cudaGetErrorName(cudaError_t error) -> char const* {
  switch (error) {
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    default: return "cudaErrorOfTheFake";
  }
}
auto cudaGetErrorString(cudaError_t) -> char const* { return "as the test wanted"; }

auto cudaMalloc(void** memory, std::size_t size) -> cudaError_t {
  std::scoped_lock const lock{world().mutex};
  if (auto const result = fault("cudaMalloc"); result != cudaSuccess) return result;
  return allocate(memory, size, cudaMemoryTypeDevice);
}
auto cudaFree(void* memory) -> cudaError_t {
  std::scoped_lock const lock{world().mutex};
  return release(memory);
}
auto cudaMallocHost(void** memory, std::size_t size) -> cudaError_t {
  std::scoped_lock const lock{world().mutex};
  return allocate(memory, size, cudaMemoryTypeHost);
}
auto cudaFreeHost(void* memory) -> cudaError_t { return cudaFree(memory); }

auto cudaPointerGetAttributes(cudaPointerAttributes* attributes, void const* pointer) -> cudaError_t {
  std::scoped_lock const lock{world().mutex};
  *attributes = {};
  auto const at = reinterpret_cast<std::uintptr_t>(pointer);
  auto const after = world().memory.upper_bound(at);
  if (after == world().memory.begin()) return cudaSuccess;
  auto const& [begin, allocation] = *std::prev(after);
  if (at < begin + std::max<std::size_t>(allocation.size, 1)) {
    attributes->type = allocation.type;
    attributes->device = allocation.device;
  }
  return cudaSuccess;
}

auto cudaMemcpy(void* to, void const* from, std::size_t size, cudaMemcpyKind) -> cudaError_t {
  std::memcpy(to, from, size);
  return cudaSuccess;
}
auto cudaMemcpyAsync(void* to, void const* from, std::size_t size, cudaMemcpyKind, cudaStream_t stream) -> cudaError_t {
  std::scoped_lock const lock{world().mutex};
  if (auto const result = fault("cudaMemcpyAsync"); result != cudaSuccess) return result;
  put(stream_of(stream), [=] {
    std::memmove(to, from, size);
    return true;
  });
  return cudaSuccess;
}

auto cudaMemsetAsync(void* to, int value, std::size_t size, cudaStream_t) -> cudaError_t {
  std::memset(to, value, size);
  return cudaSuccess;
}
auto cudaStreamSynchronize(cudaStream_t) -> cudaError_t { return cudaSuccess; }

auto cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) -> cudaError_t {
  std::scoped_lock const lock{world().mutex};
  *event = new CUevent_st;
  ++world().events;
  return cudaSuccess;
}
auto cudaEventDestroy(cudaEvent_t event) -> cudaError_t {
  std::scoped_lock const lock{world().mutex};
  delete event;
  --world().events;
  return cudaSuccess;
}
auto cudaEventRecord(cudaEvent_t event, cudaStream_t stream) -> cudaError_t {
  std::scoped_lock const lock{world().mutex};
  event->stream = &stream_of(stream);
  event->position = event->stream->put;
  return cudaSuccess;
}
auto cudaEventQuery(cudaEvent_t event) -> cudaError_t {
  std::scoped_lock const lock{world().mutex};
  if (auto const result = fault("cudaEventQuery"); result != cudaSuccess) return result;
  do_what_can_be_done();
  return event->stream == nullptr || event->stream->done >= event->position ? cudaSuccess : cudaErrorNotReady;
}
auto cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) -> cudaError_t {
  std::scoped_lock const lock{world().mutex};
  put(stream_of(stream),
      [waited = event->stream, position = event->position] { return waited == nullptr || waited->done >= position; });
  return cudaSuccess;
}

}  // extern "C"

auto raytrain::detail::reduce_on_device(DeviceReduction const& reduction, cudaStream_t stream) noexcept -> cudaError_t {
  std::scoped_lock const lock{world().mutex};
  if (auto const result = fault("reduce_on_device"); result != cudaSuccess) return result;
  ++world().counts.kernels;
  put(stream_of(stream), [argument = reduction]() mutable {
    auto bits = reinterpret_cast<std::uintptr_t>(argument.target) | argument.stride_bytes;
    for (std::uint32_t i = 0; i < (argument.stride_bytes == 0 ? argument.arrays : 1); ++i)
      bits |= reinterpret_cast<std::uintptr_t>(argument.table[i]);
    argument.aligned = bits % 16 == 0;
    device::with_op_and_type(argument, [&]<ReduceOp op, Element T>() {
      constexpr std::size_t threads = 3;
      for (std::size_t thread = 0; thread < threads; ++thread) device::reduce_share<op, T>(argument, thread, threads);
    });
    return true;
  });
  return cudaSuccess;
}

auto raytrain::detail::load_kernels() noexcept -> cudaError_t {
  std::scoped_lock const lock{world().mutex};
  return fault("load_kernels");
}

// NCCL ---------------------------------------------------------------------------------------------------------------

namespace {

auto size_of(ncclDataType_t type) -> std::size_t {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: throw std::logic_error{"the fake has no such type"};
  }
}

template <class T>
void reduce_native(std::vector<Part const*> const& parts, std::size_t begin, std::size_t count, std::byte* to) {
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto const value = [&](std::size_t rank) {
      T loaded{};
      std::memcpy(&loaded, parts[rank]->from + (begin + i) * sizeof(T), sizeof(T));
      return loaded;
    };
    auto const at = [&](std::size_t step) { return world().behaviour.reversed ? parts.size() - 1 - step : step; };
    T sofar = value(at(0));
    for (std::size_t step = 1; step < parts.size(); ++step) {
      T const next = value(at(step));
      using raytrain::ReduceOp;
      using raytrain::detail::combine;
      switch (parts[0]->op) {
        case ncclSum: sofar = combine<ReduceOp::sum>(sofar, next); break;
        case ncclProd: sofar = combine<ReduceOp::product>(sofar, next); break;
        case ncclMin: sofar = next < sofar ? next : sofar; break;  // A NaN may get lost, as in NCCL.
        case ncclMax: sofar = sofar < next ? next : sofar; break;
        default: throw std::logic_error{"the fake has no such operation"};
      }
    }
    result[i] = sofar;
  }
  // The result may lie where a source was read from.
  std::memcpy(to, result.data(), count * sizeof(T));
}

void reduce_native(std::vector<Part const*> const& parts, std::size_t begin, std::size_t count, std::byte* to) {
  switch (parts[0]->type) {
    case ncclInt8: return reduce_native<std::int8_t>(parts, begin, count, to);
    case ncclUint8: return reduce_native<std::uint8_t>(parts, begin, count, to);
    case ncclInt32: return reduce_native<std::int32_t>(parts, begin, count, to);
    case ncclUint32: return reduce_native<std::uint32_t>(parts, begin, count, to);
    case ncclInt64: return reduce_native<std::int64_t>(parts, begin, count, to);
    case ncclUint64: return reduce_native<std::uint64_t>(parts, begin, count, to);
    case ncclFloat32: return reduce_native<float>(parts, begin, count, to);
    case ncclFloat64: return reduce_native<double>(parts, begin, count, to);
    default: throw std::logic_error{"the fake has no such type"};
  }
}

/// Gives false where NCCL would hang or do nonsense, since ranks differ.
auto perform(Clique::Operation& operation) -> bool {
  std::vector<Part const*> parts;
  for (auto const& [rank, part] : operation.parts) parts.push_back(&part);
  auto const& first = *parts[0];
  for (auto const* const part : parts) {
    if (part->name != first.name || part->count != first.count || part->type != first.type || part->op != first.op ||
        part->root != first.root) {
      return false;
    }
  }
  auto const bytes = first.count * size_of(first.type);
  if (first.name == "all_gather") {
    for (auto const* const part : parts) {
      // In place or apart: the own piece lies already where it belongs, or is copied there.
      for (std::size_t rank = 0; rank < parts.size(); ++rank)
        std::memmove(part->to + rank * bytes, parts[rank]->from, bytes);
    }
  } else if (first.name == "broadcast") {
    auto const* const root = parts[static_cast<std::size_t>(first.root)];
    for (auto const* const part : parts) std::memmove(part->to, root->from, bytes);
  } else {
    ++world().counts.native_reductions;
    auto const whole = first.name == "reduce_scatter" ? first.count * parts.size() : first.count;
    std::vector<std::byte> result(whole * size_of(first.type));
    reduce_native(parts, 0, whole, result.data());
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      if (first.name == "reduce" && static_cast<int>(rank) != first.root) continue;
      auto const begin = first.name == "reduce_scatter" ? rank * bytes : 0;
      std::memcpy(parts[rank]->to, result.data() + begin, bytes);
    }
  }
  return true;
}

/// What `launch` puts on the stream once the communicator has been asked often enough.
auto launch(ncclComm* comm, Stream* stream, std::vector<Work> work) -> ncclResult_t {
  if (comm->polls_left > 0) return ncclInvalidArgument;  // NCCL: the previous call has not ended yet.
  comm->stream = stream;
  comm->pending = std::move(work);
  comm->polls_left = 2;
  return ncclInProgress;
}

auto submit(ncclComm* comm, cudaStream_t handle, Work work) -> ncclResult_t {
  auto* const stream = &stream_of(handle);
  auto const unless_aborted = [comm, work = std::move(work)] { return comm->aborted || work(); };
  if (group_depth > 0) {
    grouped.push_back({comm, {stream, unless_aborted}});
    return ncclInProgress;
  }
  return launch(comm, stream, {unless_aborted});
}

auto of_all(ncclComm* comm, cudaStream_t stream, Part part) -> ncclResult_t {
  std::scoped_lock const lock{world().mutex};
  auto const number = ++comm->operations;
  return submit(comm, stream, [comm, number, part] {
    auto& operation = comm->clique->operations[number];
    if (operation.parts.emplace(comm->rank, part).second && operation.parts.size() == comm->clique->size)
      operation.done = perform(operation);
    return operation.done;
  });
}

auto bytes_of(void const* memory) -> std::byte const* { return static_cast<std::byte const*>(memory); }
auto bytes_of(void* memory) -> std::byte* { return static_cast<std::byte*>(memory); }

}  // namespace

extern "C" {

auto ncclGetVersion(int* version) -> ncclResult_t {
  std::scoped_lock const lock{world().mutex};
  *version = world().behaviour.nccl_version;
  return ncclSuccess;
}
auto ncclGetErrorString(ncclResult_t) -> char const* { return "as the test wanted"; }
auto ncclGetLastError(ncclComm_t) -> char const* { return ""; }

auto ncclGetUniqueId(ncclUniqueId* id) -> ncclResult_t {
  std::scoped_lock const lock{world().mutex};
  *id = {};
  auto const number = ++world().ids;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

auto ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config)
    -> ncclResult_t {
  std::scoped_lock const lock{world().mutex};
  if (config->blocking != 0) return ncclInvalidArgument;
  auto& clique = world().cliques[std::string{id.internal, sizeof id.internal}];
  if (!clique) clique = std::make_shared<Clique>(Clique{static_cast<std::uint32_t>(ranks), {}, {}, {}});
  for (auto const& [other, device] : clique->device_by_rank)
    if (device == current_device) clique->error = ncclInvalidUsage;
  clique->device_by_rank[static_cast<std::uint32_t>(rank)] = current_device;
  world().communicators.push_back(std::make_unique<ncclComm>());
  *comm = world().communicators.back().get();
  (*comm)->clique = clique;
  (*comm)->rank = static_cast<std::uint32_t>(rank);
  ++world().open_communicators;
  return ncclInProgress;
}

auto ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) -> ncclResult_t {
  std::scoped_lock const lock{world().mutex};
  *state = ncclSuccess;
  auto const broken = world().broken.find(comm->rank);
  if (broken != world().broken.end()) *state = broken->second;
  if (comm->clique->error != ncclSuccess) *state = comm->clique->error;
  if (*state != ncclSuccess) return ncclSuccess;
  if (comm->clique->device_by_rank.size() < comm->clique->size) {
    *state = ncclInProgress;
  } else if (comm->polls_left > 0) {
    *state = ncclInProgress;
    if (--comm->polls_left == 0 && comm->stream != nullptr) {
      // One kernel for a group: it is done when all of it is.
      put(*comm->stream, [all = std::exchange(comm->pending, {})]() mutable {
        std::erase_if(all, [](Work const& work) { return work(); });
        return all.empty();
      });
    }
  }
  return ncclSuccess;
}

auto ncclCommCuDevice(ncclComm_t comm, int* device) -> ncclResult_t {
  std::scoped_lock const lock{world().mutex};
  *device = comm->clique->device_by_rank.at(comm->rank);
  return ncclSuccess;
}

auto ncclCommAbort(ncclComm_t comm) -> ncclResult_t {
  std::unique_lock lock{world().mutex};
  comm->aborted = true;
  ++world().counts.aborted;
  if (current_device != comm->clique->device_by_rank.at(comm->rank)) ++world().counts.aborted_elsewhere;
  --world().open_communicators;
  ++comm->clique->aborted;
  world().aborted.notify_all();
  do_what_can_be_done();
  if (world().behaviour.ends_together) {
    world().aborted.wait_for(lock, std::chrono::seconds{10},
                             [clique = comm->clique] { return clique->aborted == clique->size; });
  }
  return ncclSuccess;
}
auto ncclCommFinalize(ncclComm_t comm) -> ncclResult_t {
  std::scoped_lock const lock{world().mutex};
  comm->stream = nullptr;
  comm->polls_left = world().behaviour.ends_together ? std::numeric_limits<int>::max() : 2;
  return ncclInProgress;
}
auto ncclCommDestroy(ncclComm_t) -> ncclResult_t {
  std::scoped_lock const lock{world().mutex};
  ++world().counts.destroyed;
  --world().open_communicators;
  return ncclSuccess;
}

auto ncclGroupStart() -> ncclResult_t {
  ++group_depth;
  return ncclSuccess;
}
auto ncclGroupEnd() -> ncclResult_t {
  std::scoped_lock const lock{world().mutex};
  if (--group_depth > 0 || grouped.empty()) return ncclSuccess;
  auto* const comm = grouped[0].first;
  auto* const stream = grouped[0].second.first;
  std::vector<Work> work;
  for (auto& [each_comm, each] : grouped) work.push_back(std::move(each.second));
  grouped.clear();
  return launch(comm, stream, std::move(work));
}

auto ncclAllGather(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                   cudaStream_t stream) -> ncclResult_t {
  return of_all(comm, stream, {"all_gather", bytes_of(from), bytes_of(to), count, type, ncclSum, 0});
}
auto ncclBroadcast(void const* from, void* to, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                   cudaStream_t stream) -> ncclResult_t {
  return of_all(comm, stream, {"broadcast", bytes_of(from), bytes_of(to), count, type, ncclSum, root});
}
auto ncclAllReduce(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                   cudaStream_t stream) -> ncclResult_t {
  return of_all(comm, stream, {"all_reduce", bytes_of(from), bytes_of(to), count, type, op, 0});
}
auto ncclReduce(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                ncclComm_t comm, cudaStream_t stream) -> ncclResult_t {
  return of_all(comm, stream, {"reduce", bytes_of(from), bytes_of(to), count, type, op, root});
}
auto ncclReduceScatter(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                       ncclComm_t comm, cudaStream_t stream) -> ncclResult_t {
  return of_all(comm, stream, {"reduce_scatter", bytes_of(from), bytes_of(to), count, type, op, 0});
}

auto ncclSend(void const* from, std::size_t count, ncclDataType_t type, int to, ncclComm_t comm, cudaStream_t stream)
    -> ncclResult_t {
  std::scoped_lock const lock{world().mutex};
  auto const size = count * size_of(type);
  return submit(comm, stream, [comm, from, size, to] {
    comm->clique->mail[{comm->rank, static_cast<std::uint32_t>(to)}].emplace_back(bytes_of(from),
                                                                                  bytes_of(from) + size);
    return true;
  });
}
auto ncclRecv(void* to, std::size_t count, ncclDataType_t type, int from, ncclComm_t comm, cudaStream_t stream)
    -> ncclResult_t {
  std::scoped_lock const lock{world().mutex};
  auto const size = count * size_of(type);
  return submit(comm, stream, [comm, to, size, from] {
    auto& mail = comm->clique->mail[{static_cast<std::uint32_t>(from), comm->rank}];
    if (mail.empty() || mail.front().size() != size) return false;
    std::memcpy(to, mail.front().data(), size);
    mail.pop_front();
    return true;
  });
}

}  // extern "C"
