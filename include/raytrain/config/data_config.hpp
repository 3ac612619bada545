// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace raytrain {

/// Which datasets are divided among the workers, every other one being whole on each of them, and where they lie once
/// they are prepared.
struct DataConfig {
  /// Names of datasets; one that no dataset has is refused. A single worker needs no "train".
  std::vector<std::string> datasets_to_split{"train"};
  /// The rows that `TrainerConfig::preprocessor` makes are written into this folder, each dataset in a folder of its
  /// name, and memory-mapped, as `materialize` does it: they may be larger than memory, and restarts and later starts
  /// find them. They are those of these rows and of what was learnt, by this version of raytrain; others that lie there
  /// are refused, and so is what `materialize` refuses. Who changes the code of a preprocessor, or of a function that
  /// it calls, removes the folder. Ranks whose rows differ need a folder each. Of hosts with folders of their own, one
  /// that finds its rows waits no longer than `RunConfig::collective_timeout` for one that writes them. Seen from the
  /// folder in which the trainer is made. Empty: rows are prepared in memory, at each restart, too.
  std::filesystem::path prepared_folder{};
};

}  // namespace raytrain
