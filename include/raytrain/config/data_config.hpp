// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace raytrain {

/// Which datasets are divided among the workers; every other one is whole on each of them.
struct DataConfig {
  std::vector<std::string> datasets_to_split{"train"};  ///< Names that no dataset has are ignored.
};

}  // namespace raytrain
