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
  /// find them. They are those of these rows and of what was learnt; others that lie there are refused. Who changes a
  /// function that the preprocessor calls removes the folder. Ranks whose rows differ need a folder each, and so do
  /// hosts that share none. Empty: rows are prepared in memory, at each restart, too.
  std::filesystem::path prepared_folder{};
};

}  // namespace raytrain
