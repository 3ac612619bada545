// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <raytrain/collective/collective.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>

/// How workers exchange arrays that lie on their devices, through LibTorch, in whose library CUDA is or is not.
namespace raytrain::detail {

/// The stream that the calling thread's operations on the device go to; none on the CPU, which has no streams.
[[nodiscard]] auto current_stream(at::Device device) -> std::optional<c10::Stream>;

/// A stream that says whether what comes onto it is captured into a CUDA graph, as LibTorch's newer ones do.
template <class Stream>
concept TellsCapture = requires(Stream const& stream) {
  stream.is_capturing();
};

/// Errors: `invalid_call` while a CUDA graph is captured, since nothing runs on the CPU, where ranks agree, when it is
///         replayed; none for a stream that does not tell.
template <class Stream>
void refuse_capture(Stream const& stream, Call const& call, Rank rank) {
  if constexpr (TellsCapture<Stream>) {
    if (!stream.is_capturing()) return;
    throw Error{Errc::invalid_call, to_string(call) + " on rank " + std::to_string(rank.value),
                "a CUDA graph is captured, by whose replays workers would not agree on what they exchange",
                "capture what exchanges nothing, as the steps of a model of prepare_local_model, or no graph"};
  }
}

/// None for the unsigned types above a byte, in which not every LibTorch computes.
[[nodiscard]] auto computed_type(ElementType element) noexcept -> std::optional<at::ScalarType>;

/// Copies the task's arrays to CPU memory, performs it there by `through_memory`, and copies them back.
void exchange_through_memory(Task const& task, Collective& through_memory, at::Device device);

/// By the number of ranks.
void divide(at::Tensor const& sum, std::size_t ranks);

/// Reduces arrays on the device into `target`, which may be one of them, in their order. The call's type is a
/// `computed_type`.
void reduce_arrays(Call const& call, std::span<std::byte const* const> arrays, std::byte* target, at::Device device);

/// A collective of arrays on the worker's device. Its operations are put on the worker's current stream, and are over
/// for what is put on it behind them: nothing waits for the device. A collective through CPU memory, whose limits and
/// errors count, first compares the ranks' calls and lets the ranks wait for each other.
class DeviceArrays : public Collective {
 public:
  [[nodiscard]] auto rank() const noexcept -> Rank final { return through_memory_->rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize final { return through_memory_->size(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool final { return through_memory_->stop_agreed(); }
  [[nodiscard]] auto takes_device_arrays() const noexcept -> bool final { return true; }
  [[nodiscard]] auto device() const noexcept -> at::Device { return device_; }
  /// Whether a broadcast leaves arrays on the devices, and nobody waits for one. The same on every rank.
  [[nodiscard]] virtual auto broadcasts_on_device() const noexcept -> bool { return true; }

  /// Errors: also `invalid_call` for an array that is not in the memory of a device, and while a CUDA graph is
  /// captured.
  [[nodiscard]] auto start(Task const& task) -> Pending final;

  /// Errors: `c10::Error` where the device has no room.
  [[nodiscard]] auto allocate_zeros(std::size_t size_bytes) -> std::shared_ptr<void> final;

 protected:
  /// `through_memory`: never null. It is the collective of the worker's other operations, so that ranks that are out of
  /// step meet there. For the arrays of another thread it is one of that thread.
  DeviceArrays(std::shared_ptr<Collective> through_memory, at::Device device) noexcept
      : through_memory_{std::move(through_memory)}, device_{device} {}

  [[nodiscard]] auto through_memory() noexcept -> Collective& { return *through_memory_; }

 private:
  /// Its arrays are where they belong.
  virtual void perform(Task const& task) = 0;

  std::shared_ptr<Collective> through_memory_;
  at::Device device_;
};

/// Points in the streams of workers that share a device, by rank: they live as long as any of them does, since others
/// may wait for the last operation of one that has ended.
///
/// Threads: `of` from any thread; each worker records its own, and others wait for them when they know that it has.
class SharedEvents {
 public:
  /// The ones of a key, which threads of this process have agreed on.
  [[nodiscard]] static auto of(std::uint64_t key, WorldSize size, at::DeviceType type) -> std::shared_ptr<SharedEvents>;
  /// Another one each time.
  [[nodiscard]] static auto new_key() noexcept -> std::uint64_t;

  SharedEvents(WorldSize size, at::DeviceType type);

  struct OfRank {
    c10::Event ready;  ///< From then on its arrays may be touched.
    c10::Event done;   ///< From then on it touches none of the others'.
  };
  /// Empty on the CPU, which has no streams.
  std::vector<OfRank> by_rank;
};

/// Workers that are threads of one process and share a device: each works on the arrays of the others, in rank order,
/// when its stream has come to where theirs were.
///
/// Cost: two waits for the other threads. all_reduce of n ranks reads and writes 5 n - 3 times the array's bytes.
class SharedDeviceArrays final : public DeviceArrays {
 public:
  /// A group operation.
  SharedDeviceArrays(std::shared_ptr<Collective> through_memory, at::Device device);

  [[nodiscard]] auto duplicate() -> std::unique_ptr<Collective> override;

 private:
  SharedDeviceArrays(std::uint64_t key, std::shared_ptr<Collective> through_memory, at::Device device);
  /// A group operation of that collective.
  [[nodiscard]] static auto agreed_key(Collective& by) -> std::uint64_t;

  void perform(Task const& task) override;

  /// What a rank shows to the others.
  struct Shown {
    std::byte const* from;
    std::byte* to;
  };

  /// All ranks', once they have shown them and call the same.
  void exchange(Task const& task);
  void work(Task const& task);
  /// Reduces all ranks' arrays from `begin_bytes` on, into the tensor over `target`.
  void reduce(Call const& call, std::size_t begin_bytes, std::byte* target);
  void copy(std::byte* to, std::byte const* from, std::size_t bytes) const;
  void record(c10::Event SharedEvents::OfRank::*point) const;
  /// The current stream waits for all others'.
  void wait_for(c10::Event SharedEvents::OfRank::*point) const;

  std::shared_ptr<SharedEvents> events_;
  std::vector<Shown> shown_;
};

/// Any workers with any devices: arrays are copied to CPU memory, exchanged there, and copied back.
///
/// Cost: each operation waits for the device.
class ArraysThroughMemory final : public DeviceArrays {
 public:
  ArraysThroughMemory(std::shared_ptr<Collective> through_memory, at::Device device) noexcept
      : DeviceArrays{std::move(through_memory), device} {}

  [[nodiscard]] auto broadcasts_on_device() const noexcept -> bool override { return false; }
  [[nodiscard]] auto duplicate() -> std::unique_ptr<Collective> override;

 private:
  void perform(Task const& task) override;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/device_arrays-inl.hpp>
#endif
