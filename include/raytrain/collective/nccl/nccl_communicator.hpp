// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/collective/waiting.hpp>
#include <raytrain/core/call_apart.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// A reduction as NCCL calls it. An average is a sum here, to be divided: NCCL's own multiplies each float by 1/ranks.
struct NativeReduction {
  ncclDataType_t type{};
  ncclRedOp_t op{};
};

/// Nothing where NCCL's result would differ from what `Collective` promises in more than the order of values.
///
/// Source: NCCL 2.18 to 2.28, src/device/reduce_kernel.h.
[[nodiscard]] constexpr auto native_reduction(ElementType element, ReduceOp op) noexcept
    -> std::optional<NativeReduction> {
  auto const native = op == ReduceOp::min       ? ncclMin
                      : op == ReduceOp::max     ? ncclMax
                      : op == ReduceOp::product ? ncclProd
                                                : ncclSum;
  bool const picks = op == ReduceOp::min || op == ReduceOp::max;
  switch (element) {
    // NCCL's min and max of a number and a NaN are the number.
    case ElementType::float32: return picks ? std::nullopt : std::optional{NativeReduction{ncclFloat32, native}};
    case ElementType::float64: return picks ? std::nullopt : std::optional{NativeReduction{ncclFloat64, native}};
    case ElementType::int8: return NativeReduction{ncclInt8, native};
    case ElementType::uint8: return NativeReduction{ncclUint8, native};
    case ElementType::int32: return NativeReduction{ncclInt32, native};
    case ElementType::uint32: return NativeReduction{ncclUint32, native};
    case ElementType::int64: return NativeReduction{ncclInt64, native};
    case ElementType::uint64: return NativeReduction{ncclUint64, native};
    // It rounds to 16 bits after each rank, and has no integers of 16 bits.
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::int16:
    case ElementType::uint16: break;
  }
  return std::nullopt;
}

}  // namespace raytrain::detail

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0), "raytrain needs NCCL 2.18 or newer");

namespace raytrain::detail {

[[nodiscard]] inline auto name_of(ncclResult_t result) -> std::string {
  switch (result) {
    case ncclSuccess: return "ncclSuccess";
    case ncclUnhandledCudaError: return "ncclUnhandledCudaError";
    case ncclSystemError: return "ncclSystemError";
    case ncclInternalError: return "ncclInternalError";
    case ncclInvalidArgument: return "ncclInvalidArgument";
    case ncclInvalidUsage: return "ncclInvalidUsage";
    case ncclRemoteError: return "ncclRemoteError";
    case ncclInProgress: return "ncclInProgress";
    default: return "NCCL's error " + std::to_string(static_cast<int>(result));
  }
}

[[nodiscard]] inline auto remedy_of(ncclResult_t result) -> std::string {
  switch (result) {
    case ncclRemoteError: return "look at what ended or cut off another rank; restart from the last checkpoint";
    case ncclInvalidUsage: return "give every rank a GPU of its own (workers that share one: DeviceCollective)";
    default: return "set NCCL_DEBUG=WARN and run again to see what NCCL found";
  }
}

/// Every return code of NCCL passes here. `attempted` says what it was needed for. One that says that an operation of
/// a non-blocking communicator goes on is no error.
///
/// Errors: `backend`, with what NCCL says about its last error.
inline void check_nccl(ncclResult_t result, std::string const& attempted) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  auto happened = name_of(result) + " (" + ncclGetErrorString(result) + ")";
  auto const* const last = ncclGetLastError(nullptr);
  if (last != nullptr && *last != '\0') happened += std::string{": "} + last;
  throw Error{Errc::backend, attempted, happened, remedy_of(result)};
}

}  // namespace raytrain::detail

namespace raytrain {

/// What the ranks of one NCCL world have in common. One rank creates it and hands its bytes to the others by any means:
///
///   NcclId id;
///   if (rank == Rank{0}) id = NcclId::create();
///   collective.broadcast(id.bytes(), Rank{0});
class NcclId {
 public:
  static constexpr std::size_t size_bytes = NCCL_UNIQUE_ID_BYTES;

  /// Zeros, which is nobody's: to receive into.
  NcclId() = default;

  /// Another one each time. Opens the socket through which the ranks find each other, on the interface that
  /// NCCL_SOCKET_IFNAME names; needs no GPU.
  ///
  /// Errors: `backend` when NCCL finds no network interface.
  [[nodiscard]] static auto create() -> NcclId {
    ncclUniqueId made{};
    detail::check_nccl(ncclGetUniqueId(&made), "NcclId::create");
    NcclId id;
    std::memcpy(id.bytes_.data(), made.internal, size_bytes);
    return id;
  }

  [[nodiscard]] auto bytes() noexcept -> std::span<std::uint8_t> { return bytes_; }
  [[nodiscard]] auto bytes() const noexcept -> std::span<std::uint8_t const> { return bytes_; }

  [[nodiscard]] auto native() const noexcept -> ncclUniqueId {
    ncclUniqueId id{};
    std::memcpy(id.internal, bytes_.data(), size_bytes);
    return id;
  }

  friend auto operator==(NcclId const&, NcclId const&) -> bool = default;

 private:
  static_assert(sizeof(ncclUniqueId) == size_bytes);
  std::array<std::uint8_t, size_bytes> bytes_{};
};

}  // namespace raytrain

namespace raytrain::detail {

/// A non-blocking communicator of NCCL: none of its calls waits for other ranks. The end waits for those of the host,
/// at most for some seconds; not at all behind an exception, of which they learn later.
///
/// Threads: one at a time.
class NcclCommunicator {
 public:
  struct Member {
    Rank rank;
    WorldSize size;
  };

  NcclCommunicator() = default;
  NcclCommunicator(NcclCommunicator&& other) noexcept : comm_{std::exchange(other.comm_, nullptr)} {}
  auto operator=(NcclCommunicator&& other) noexcept -> NcclCommunicator& {
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~NcclCommunicator() { finalize(); }

  /// On the current device. `is_ready` says when it may be used.
  void start(ncclUniqueId const& id, Member member, std::string const& attempted) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    auto const ranks = static_cast<int>(member.size.value);
    auto const rank = static_cast<int>(member.rank.value);
    check_nccl(ncclCommInitRankConfig(&comm_, ranks, id, rank, &config), attempted);
  }

  [[nodiscard]] auto get() const noexcept -> ncclComm_t { return comm_; }

  /// Whether the last call has done its part on the CPU: only then are its kernels on the stream, and may the next
  /// call come.
  ///
  /// Errors: `backend` for what went wrong since the start, on other ranks too.
  [[nodiscard]] auto is_ready(std::string const& attempted) const -> bool {
    auto state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(comm_, &state), attempted);
    check_nccl(state, attempted);
    return state != ncclInProgress;
  }

  /// Ends what it has on the device, without the other ranks. NCCL waits until all ranks of the host have done so
  /// before it frees what they share; this does not wait that long.
  void abort() noexcept {
    if (comm_ == nullptr) return;
    constexpr std::chrono::milliseconds moment{300};
    auto const end = call_apart([comm = std::exchange(comm_, nullptr)] {
      // Otherwise CUDA takes memory of the first GPU for this thread.
      if (auto device = 0; ncclCommCuDevice(comm, &device) == ncclSuccess) (void)cudaSetDevice(device);
      (void)ncclCommAbort(comm);
    });
    if (end.valid()) (void)end.wait_for(moment);
  }

 private:
  static constexpr std::chrono::seconds finalize_limit{5};

  /// Lets go what other ranks may still fetch from this one; not for ever, if they are lost.
  void finalize() noexcept {
    if (comm_ == nullptr) return;
    if (std::uncaught_exceptions() > exceptions_before_) return abort();
    auto state = ncclCommFinalize(comm_);
    Backoff backoff;
    for (std::chrono::nanoseconds waited{0}; state == ncclInProgress && waited < finalize_limit;) {
      waited = backoff.pause();
      if (ncclCommGetAsyncError(comm_, &state) != ncclSuccess) break;
    }
    if (state != ncclSuccess) return abort();
    (void)ncclCommDestroy(std::exchange(comm_, nullptr));
  }

  ncclComm_t comm_ = nullptr;
  int exceptions_before_ = std::uncaught_exceptions();
};

}  // namespace raytrain::detail
