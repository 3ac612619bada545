// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace raytrain {

/// Which datasets are divided among the workers; every other one is whole on each of them.
struct DataConfig {
  /// Names of datasets; one that no dataset has is refused. A single worker needs no "train".
  std::vector<std::string> datasets_to_split{"train"};
};

}  // namespace raytrain
