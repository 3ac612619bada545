// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/placement_options.hpp>
#include <raytrain/launch/detail/shell_text.hpp>

namespace raytrain::detail {

[[noreturn]] RAYTRAIN_INLINE void refuse_placement(std::string const& happened, std::string const& remedy) {
  throw Error{Errc::invalid_config, "ScalingConfig::placement_strategy", happened, remedy};
}

/// What a program says of its version; empty where it says nothing or does not run.
RAYTRAIN_INLINE auto version_of(std::string const& program) -> std::string {
  auto* const output = ::popen((shell_word(program) + " --version 2>/dev/null </dev/null").c_str(), "re");
  if (output == nullptr) return {};
  std::string version;
  std::array<char, 256> part{};
  for (std::size_t count = part.size(); count == part.size();) {
    count = std::fread(part.data(), 1, part.size(), output);
    version.append(part.data(), count);
  }
  ::pclose(output);
  return version;
}

/// Errors: `invalid_config` for a word that begins like one of these.
RAYTRAIN_INLINE void check_unplaced(std::vector<std::string> const& command,
                                    std::vector<std::string_view> const& options) {
  for (auto const& word : command) {
    for (auto const option : options) {
      if (!word.starts_with(option)) continue;
      refuse_placement("ScalingConfig::job_command places the ranks already, by '" + word + "'",
                       "leave one of them out");
    }
  }
}

RAYTRAIN_INLINE auto placement_options(ScalingConfig const& scaling) -> std::vector<std::string> {
  if (scaling.placement_strategy == PlacementStrategy::automatic) return {};
  auto const packs = scaling.placement_strategy == PlacementStrategy::pack;
  auto const& command = scaling.job_command;
  auto const name = std::filesystem::path{command.front()}.filename().string();
  if (name == "srun") {
    check_unplaced(command, {"--distribution", "-m"});
    if (std::getenv("SLURM_JOB_ID") == nullptr) {
      refuse_placement("Slurm itself chooses the hosts of a job that srun brings into its queue",
                       "start the program in an allocation, by salloc or sbatch; or give srun what it takes for that, "
                       "such as -N 4 and --ntasks-per-node=1, in ScalingConfig::job_command");
    }
    // Without Pack each host of the allocation gets as many.
    return {packs ? "--distribution=block,Pack" : "--distribution=cyclic"};
  }
  auto const may_be_open_mpi = name.starts_with("mpirun") || name.starts_with("mpiexec") || name == "orterun";
  if (may_be_open_mpi && version_of(command.front()).find("Open MPI") != std::string::npos) {
    check_unplaced(command, {"--map-by", "-map-by", "--bynode", "-bynode", "--byslot", "-byslot", "-npernode",
                             "--npernode", "-N", "--ppr", "-ppr", "--rankfile", "-rankfile", "-rf"});
    return {"--map-by", packs ? "slot" : "node"};
  }
  refuse_placement("'" + command.front() +
                       "' is neither srun nor Open MPI's mpirun, and raytrain does not know how "
                       "to tell it",
                   "give it an option of its own in ScalingConfig::job_command, such as -ppn 1 for MPICH's mpiexec");
}

}  // namespace raytrain::detail
