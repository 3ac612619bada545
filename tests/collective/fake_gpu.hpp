// SPDX-License-Identifier: Apache-2.0
// CUDA and NCCL as far as raytrain calls them, on the CPU: for tests where there is no GPU. Device memory is CPU
// memory that is known to be a device's; a stream is a queue of work that is done while somebody asks for an event;
// NCCL's kernels come onto the stream only after the communicator was asked often enough, as non-blocking ones do.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <string>

namespace fake_gpu {

/// What a test can change; `reset` brings all of it back.
struct Behaviour {
  int devices = 64;
  cudaError_t device_count_result = cudaSuccess;
  int nccl_version = NCCL_VERSION_CODE;
  bool reversed = false;       ///< NCCL combines from the last rank to the first.
  bool ends_together = false;  ///< To finalize and to abort wait for all ranks, for ten seconds at most.
};

/// What has been called so far.
struct Counts {
  int aborted = 0;
  int aborted_elsewhere = 0;  ///< Of these, by threads whose device is not the communicator's.
  int destroyed = 0;
  int native_reductions = 0;
  int kernels = 0;
};

void reset();
void change(Behaviour const& behaviour);
[[nodiscard]] auto counts() -> Counts;

/// Lets the next call of a CUDA function fail, on whichever thread it is.
void fail_next(std::string const& function, cudaError_t result);

/// Makes the communicators of a rank report an error from now on.
void break_communicator(std::uint32_t rank, ncclResult_t result);

/// Allocated and not freed: bytes, events and communicators.
[[nodiscard]] auto leaked() -> std::size_t;

}  // namespace fake_gpu
