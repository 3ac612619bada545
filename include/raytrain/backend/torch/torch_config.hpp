// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace raytrain {

/// How gradients and buffers on GPUs get from one worker to the others.
enum class GpuExchange : std::uint8_t {
  automatic,      ///< `shared_device` or `nccl` where that is possible, else `cpu`.
  shared_device,  ///< Within the memory of the one GPU that all workers share, which are threads of one process.
  nccl,           ///< By NCCL, between workers with GPUs of their own: threads, processes or ranks.
  cpu,            ///< Through CPU memory, by the collective that workers on the CPU use.
};

/// Settings of `TorchBackend`.
struct TorchConfig {
  /// Freed memory stays with the process for the next tensors while `fit()` trains (glibc only, and for the whole
  /// program, unless its environment settles it: `MALLOC_TRIM_THRESHOLD_` and others). Otherwise pages go back to the
  /// system and are cleared anew at every step, which took a quarter of the time of a small MLP. Afterwards glibc goes
  /// on as behind the first large block that a program frees; what the program has set by mallopt is gone.
  bool keep_freed_memory = true;
  /// Each report gets `TorchContext::step_times()` of its worker: "samples_per_s", "data_s" and the others, but for
  /// names that the report has already. With a model whose overlap is measured (`ModelOptions::overlap`) it gets
  /// "overlapped" as well: 1 where the gradients are exchanged during backwards, 0 where behind them, 0.5 while both
  /// are tried; with several such models their mean. A run goes on with them or without, however it was begun.
  bool report_step_times = false;
  /// With `ScalingConfig::use_gpu`.
  GpuExchange gpu_exchange = GpuExchange::automatic;
};

}  // namespace raytrain
