#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <raytrain/core/usable_cores.hpp>
#include <raytrain/launch/gpu_driver.hpp>
#include <raytrain/launch/host.hpp>

#include "findings.hpp"

// What follows a name and a colon in one of the files of /proc; empty when it does not say.
inline auto proc_entry(char const* path, std::string_view name) -> std::string {
  std::ifstream file{path};
  for (std::string line; std::getline(file, line);) {
    auto const colon = line.find(':');
    if (!line.starts_with(name) || colon == std::string::npos) continue;
    auto const text = line.find_first_not_of(" \t", colon + 1);
    return text == std::string::npos ? std::string{} : line.substr(text);
  }
  return {};
}

inline auto vector_instructions() -> std::string {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return "AVX-512";
  if (__builtin_cpu_supports("avx2")) return "AVX2";
  return "no AVX2";
#else
  return "not looked at";
#endif
}

inline void examine_processor(Findings& findings) {
  auto const model = proc_entry("/proc/cpuinfo", "model name");
  findings.say("Processor", fmt::format("{}, {} cores, vector instructions: {}", model.empty() ? "unknown" : model,
                                        ::sysconf(_SC_NPROCESSORS_ONLN), vector_instructions()));
  auto const bytes = [](char const* name) {
    return 1024 * std::strtoull(proc_entry("/proc/meminfo", name).c_str(), nullptr, 10);
  };
  findings.say("Memory", fmt::format("{} of {} available", raytrain::gibibytes_text(bytes("MemAvailable")),
                                     raytrain::gibibytes_text(bytes("MemTotal"))));
}

// How this worker is placed among those of its host.
inline void examine_cores(std::uint32_t workers_here, int cpus, bool in_job, Findings& findings) {
  auto const cores = raytrain::usable_cores();
  findings.say("Workers", fmt::format("{} on {}, {} {} each, may use cores {}", workers_here, findings.hostname, cpus,
                                      cpus == 1 ? "thread" : "threads", ranges_of(cores)));
  auto const all = static_cast<std::size_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  auto const share = all / workers_here;
  if (share == 0) {
    findings.advise(fmt::format("{} workers share the {} cores of host {}, and take turns: start {} there, or fewer",
                                workers_here, all, findings.hostname, all));
  } else if (in_job && cores.size() < share) {
    findings.advise(
        fmt::format("each rank on host {0} may use {1} of the {2} cores that it could have: mpirun --bind-to "
                    "none, or --map-by slot:PE={2}; srun --cpus-per-task={2}",
                    findings.hostname, cores.size(), share));
  } else if (!in_job && cores.size() < all) {
    findings.advise(fmt::format("this process may use {} of the {} cores: taskset or its container has bound it",
                                cores.size(), all));
  }
  auto const quota = raytrain::detail::cpu_quota();
  if (quota && *quota < static_cast<double>(cores.size())) {
    findings.advise(
        fmt::format("a container's limit gives this process the time of {:.1f} cores, of {} that it may use", *quota,
                    cores.size()));
  }
}

inline void examine_network(Findings& findings) {
  std::string text;
  for (auto const& [name, address] : raytrain::network_interfaces()) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", name, address);
  }
  findings.say("Network", text.empty() ? "none but loopback" : text);
}

// More than one open file for each rank, on rank 0.
inline void examine_limits(std::uint32_t workers, Findings& findings) {
  rlimit limit{};
  constexpr rlim_t own_files = 64;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= workers + own_files) return;
  findings.advise(
      fmt::format("a process may have {} open files, and rank 0 needs one for each of the {} ranks: raise "
                  "the limit (ulimit -n {})",
                  limit.rlim_cur, workers, workers + own_files));
}

// Settings of the libraries and launchers that a training goes through.
inline void examine_environment(Findings& findings) {
  constexpr std::array<std::string_view, 19> prefixes{"RAYTRAIN_",
                                                      "OMP_",
                                                      "OPENBLAS_",
                                                      "MKL_",
                                                      "OMPI_MCA_btl",
                                                      "OMPI_MCA_coll",
                                                      "OMPI_MCA_hwloc_base",
                                                      "OMPI_MCA_mtl",
                                                      "OMPI_MCA_pml",
                                                      "OMPI_MCA_rmaps",
                                                      "PRTE_MCA_",
                                                      "UCX_",
                                                      "MPICH_",
                                                      "FI_",
                                                      "NCCL_",
                                                      "CUDA_",
                                                      "SLURM_JOB_ID",
                                                      "SLURM_CPU_BIND=",
                                                      "SLURM_MPI_TYPE"};
  std::vector<std::string> settings;
  for (auto const* const* at = environ; *at != nullptr; ++at) {
    std::string_view const setting{*at};
    if (setting.starts_with("RAYTRAIN_SET_RANK=")) continue;  // by raytrain itself, another one on each rank
    if (std::ranges::any_of(prefixes, [&](auto prefix) { return setting.starts_with(prefix); })) {
      settings.emplace_back(setting);
    }
  }
  std::ranges::sort(settings);
  for (auto const& setting : settings) findings.say("Environment", setting);
}
