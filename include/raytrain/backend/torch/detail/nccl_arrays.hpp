// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include <c10/core/Stream.h>

#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/backend/torch/detail/nccl_library.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// A stream that says what CUDA calls it, as LibTorch's newer ones do.
template <class Stream>
concept TellsNativeStream = requires(Stream const& stream) {
  stream.native_handle();
};
inline constexpr bool tells_native_streams = TellsNativeStream<c10::Stream>;

/// Workers with a GPU each, threads of one process or ranks: NCCL exchanges their arrays, on each one's current stream.
///
/// The ranks agree on a call by the collective through CPU memory first, so that NCCL never waits for a rank that does
/// something else; the worker's thread does not wait for the GPU. When the worker is to end at once, the communicator
/// is aborted by whoever says so: then what waits for the GPU goes on. It is aborted, too, when a wait on the CPU for
/// what NCCL has begun, as for a peer to connect, has taken as long as the limits say. NCCL's abort may wait until all
/// ranks of a host have called it, so that a thread of its own does, for which nobody waits longer than a moment.
///
/// A worker that ends by an exception, or at a stop, leaves before other ranks end theirs: they learn of it only then.
///
/// Sums, averages and products of float and double are added in an order that follows the topology, the same on every
/// rank. What NCCL rounds otherwise than `Collective` promises is gathered, and reduced in rank order; gather, scatter
/// and all_gatherv go through CPU memory.
///
/// Source: NVIDIA's documentation of NCCL.
class NcclArrays final : public DeviceArrays {
 public:
  struct Options {
    NcclLibrary const& library;
    std::shared_ptr<Collective> through_memory;
    at::Device device;
    WaitLimits limits{};      ///< For each operation, and for connecting. NCCL names nobody who is late.
    std::stop_token stop{};   ///< When the worker is to end soon.
    std::stop_token abort{};  ///< When the worker is to end at its next wait.
  };

  /// A group operation. Errors: `backend` when NCCL reports an error, as for two ranks with one GPU; `timed_out`, as
  ///         every operation, which every later one says again.
  explicit NcclArrays(Options options);
  ~NcclArrays() override;

  [[nodiscard]] auto duplicate() -> std::unique_ptr<Collective> override;

 private:
  void perform(Task const& task) override;
  struct Abort {
    NcclArrays* arrays;
    void operator()() const noexcept { arrays->abort(); }
  };

  /// Of several in a row, so that others are told of an end within a second.
  static constexpr std::chrono::milliseconds moment{100};

  NcclArrays(NcclLibrary::UniqueId const& id, Options options);
  /// A group operation of that collective. Errors: as the constructor.
  [[nodiscard]] static auto agreed_id(NcclLibrary const& library, Collective& by) -> NcclLibrary::UniqueId;

  void connect(NcclLibrary::UniqueId const& id);
  /// "... on rank 0".
  [[nodiscard]] auto on_rank(std::string const& what) const -> std::string;
  [[nodiscard]] auto is_ready(std::string const& attempted) -> bool;
  /// Returns when NCCL's last call is no longer in progress on the CPU. `what` is what this rank waits in.
  void wait_until_ready(std::string const& what);
  void work(Task const& task, void* stream);
  [[nodiscard]] auto result_of(NcclLibrary::Reduction const& native, Task const& task, void* stream) -> int;
  /// Whether an exception ends the worker that has these arrays.
  [[nodiscard]] auto has_failed() const noexcept -> bool { return std::uncaught_exceptions() > exceptions_before_; }
  /// Returns when what is on the current stream is over, and what other ranks may still fetch from this one is let go;
  /// or when it is aborted, or the limits are over.
  void finish() noexcept;
  /// Waits for nobody.
  void abort() noexcept;
  /// The same, and returns when it is done, or after a moment.
  void end() noexcept;

  NcclLibrary const& library_;
  WaitLimits limits_;
  std::optional<Error> late_;  ///< Why nothing can be exchanged any more.
  std::stop_token stop_token_;
  std::stop_token abort_token_;
  int exceptions_before_ = std::uncaught_exceptions();
  std::mutex mutex_;  ///< Of the communicator.
  NcclLibrary::Comm comm_ = nullptr;
  std::future<void> aborted_;                              ///< Of the abort, if there was one.
  std::optional<std::stop_callback<Abort>> when_aborted_;  ///< Last: it uses everything above.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/nccl_arrays-inl.hpp>
#endif
