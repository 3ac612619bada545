#pragma once

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "findings.hpp"
#include "host.hpp"

// A library that is asked for at run time, so that the program runs where it is not.
class LoadedLibrary {
 public:
  explicit LoadedLibrary(char const* name) : handle_{::dlopen(name, RTLD_LAZY | RTLD_LOCAL)} {
    if (handle_ == nullptr) problem_ = ::dlerror();
  }

  [[nodiscard]] auto is_there() const -> bool { return handle_ != nullptr; }
  [[nodiscard]] auto problem() const -> std::string const& { return problem_; }

  // The function's result, which is 0 when all is well; -1 without such a function.
  template <class... Args>
  auto call(char const* name, Args... args) const -> int {
    auto* const function = handle_ != nullptr ? reinterpret_cast<int (*)(Args...)>(::dlsym(handle_, name)) : nullptr;
    return function != nullptr ? function(args...) : -1;
  }

 private:
  void* handle_;
  std::string problem_;
};

// Functions and numbers of the CUDA Driver API and of NCCL.
inline void examine_gpus(Findings& findings) {
  LoadedLibrary const driver{"libcuda.so.1"};
  auto const has_device = std::filesystem::exists("/dev/nvidiactl");
  if (!driver.is_there()) {
    findings.say("GPU", "none: NVIDIA's driver is not here (libcuda.so.1)");
    if (has_device)
      findings.advise("there is a GPU (/dev/nvidiactl), but its driver cannot be loaded: " + driver.problem());
    return;
  }
  int count = 0;
  auto const status = driver.call("cuInit", 0U);
  if (status == 0) driver.call("cuDeviceGetCount", &count);
  int version = 0;
  driver.call("cuDriverGetVersion", &version);
  findings.say("GPU", fmt::format("{}, the driver supports CUDA {}.{}", count, version / 1000, version % 1000 / 10));
  if (status != 0)
    findings.advise(fmt::format("NVIDIA's driver does not start (cuInit gives {}): nvidia-smi may tell why", status));
  for (int at = 0; at < count; ++at) {
    int device = 0;
    std::array<char, 256> name{};
    std::size_t bytes = 0;
    driver.call("cuDeviceGet", &device, at);
    driver.call("cuDeviceGetName", name.data(), static_cast<int>(name.size()), device);
    driver.call("cuDeviceTotalMem_v2", &bytes, device);
    findings.say("GPU", fmt::format("{}: {}, {}", at, name.data(), gibibytes(static_cast<double>(bytes))));
  }
  LoadedLibrary const nccl{"libnccl.so.2"};
  int nccl_version = 0;
  nccl.call("ncclGetVersion", &nccl_version);
  findings.say("NCCL", nccl.is_there() ? fmt::format("{}.{}.{}", nccl_version / 10000, nccl_version % 10000 / 100,
                                                     nccl_version % 100)
                                       : "not here (libnccl.so.2)");
  if (count > 0 && !nccl.is_there())
    findings.advise("GPUs exchange arrays by NCCL, which is not here: install libnccl2");
}
