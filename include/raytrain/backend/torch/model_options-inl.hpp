// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/backend/torch/model_options.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE void ModelOptions::validate() const {
  if (bucket_bytes > 0) return;
  throw Error{Errc::invalid_config, "ModelOptions::bucket_bytes", "must be at least 1 (got 0)",
              "leave it out for 25 MiB; with 1 each parameter is a bucket"};
}

}  // namespace raytrain
