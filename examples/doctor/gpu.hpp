#pragma once

#include <cstddef>
#include <filesystem>

#include <fmt/format.h>

#include <raytrain/launch/gpu_driver.hpp>

#include "findings.hpp"

// The driver, its GPUs and NCCL; what LibTorch makes of them is said beside its BLAS.
inline void examine_gpus(Findings& findings) {
  auto const driver = raytrain::GpuDriver::ask();
  if (!driver.is_loaded) {
    findings.say("GPU", "none: NVIDIA's driver is not here (libcuda.so.1)");
    if (std::filesystem::exists("/dev/nvidiactl"))
      findings.advise("there is a GPU (/dev/nvidiactl), but its driver cannot be loaded: " + driver.load_error);
    return;
  }
  findings.say("GPU", fmt::format("{}, the driver supports CUDA {}", driver.gpus.size(),
                                  raytrain::cuda_version_text(driver.cuda)));
  if (driver.status != 0) {
    findings.advise(
        fmt::format("NVIDIA's driver does not start (cuInit gives {}): nvidia-smi may tell why", driver.status));
  }
  for (std::size_t at = 0; at < driver.gpus.size(); ++at) {
    auto const& gpu = driver.gpus[at];
    findings.say("GPU", fmt::format("{}: {}, {}", at, gpu.name, raytrain::gibibytes_text(gpu.memory_bytes)));
  }
  auto const nccl = raytrain::installed_nccl();
  findings.say("NCCL", nccl ? fmt::format("{}.{}.{}", *nccl / 10000, *nccl % 10000 / 100, *nccl % 100)
                            : "not here (libnccl.so.2)");
  if (!driver.gpus.empty() && !nccl)
    findings.advise("GPUs exchange arrays by NCCL, which is not here: install libnccl2");
}
