// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace raytrain {

/// Settings of `TorchBackend`.
struct TorchConfig {
  /// Freed memory stays with the process for the next tensors (glibc only, from `fit()` on and for good). Otherwise
  /// pages go back to the system and are cleared anew at every step, which took a quarter of the time of a small MLP.
  bool keep_freed_memory = true;
};

}  // namespace raytrain
