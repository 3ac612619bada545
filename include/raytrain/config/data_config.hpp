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
  /// Where the rows that `TrainerConfig::preprocessor` makes are kept: each dataset in a folder of its name, written
  /// once and memory-mapped, as by `materialize`. They may be larger than memory. Restarts, later starts and other
  /// ranks that see the folder use them. Empty: each attempt prepares the rows in memory. A relative path begins at
  /// what is the current directory when the trainer is made.
  ///
  /// A folder fits one set of rows, one learnt preprocessor and one version of raytrain; any other is refused, and so
  /// is what `materialize` refuses, as bfloat16. Remove it, or name another one, when one of these has changed, and
  /// after a change of the code of a preprocessor or of a function that it calls, which nothing notices.
  ///
  /// Ranks whose rows differ need a folder each. Where each host has a folder of its own, one that is ready waits for
  /// the others no longer than `RunConfig::collective_timeout`: set it above the time that preparing takes.
  std::filesystem::path prepared_folder{};
};

}  // namespace raytrain
