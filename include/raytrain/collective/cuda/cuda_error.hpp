// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// What a reader can do about it; empty where that depends on the program.
[[nodiscard]] inline auto remedy_of(cudaError_t result) -> std::string {
  switch (result) {
    case cudaErrorNoDevice:
      return "run it where an NVIDIA GPU is, and let CUDA_VISIBLE_DEVICES name it; LocalCollective works without one";
    case cudaErrorInsufficientDriver:
      return "install an NVIDIA driver for this CUDA runtime or a newer one; where there is no GPU, LocalCollective "
             "works";
    case cudaErrorInvalidDevice: return "name a device that nvidia-smi lists and CUDA_VISIBLE_DEVICES leaves visible";
    case cudaErrorMemoryAllocation: return "make the arrays or the batch smaller; another process may fill the device";
    case cudaErrorNoKernelImageForDevice:
      return "compile raytrain/collective/cuda/kernels.cu for this GPU's architecture as well (nvcc -gencode)";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
      return "a kernel went wrong, perhaps one before this call: run the program under compute-sanitizer";
    default: return {};
  }
}

/// Every return code of CUDA passes here. `attempted` says what it was needed for.
///
/// Errors: `backend` unless it is `cudaSuccess`.
inline void check_cuda(cudaError_t result, std::string const& attempted) {
  if (result == cudaSuccess) return;
  // CUDA reports an error once more to whoever asks next, who has nothing to do with it.
  (void)cudaGetLastError();
  throw Error{Errc::backend, attempted, std::string{cudaGetErrorName(result)} + " (" + cudaGetErrorString(result) + ")",
              remedy_of(result)};
}

}  // namespace raytrain::detail
