// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <string>

#include <raytrain/core/error.hpp>

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
