// SPDX-License-Identifier: Apache-2.0
// Debian's libtorch-dev lacks this header, although its own reducer.hpp includes it: the two names that are needed there.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace torch::distributed::autograd {

struct DistAutogradContext {
  using GradCallback = std::function<bool(at::Tensor&)>;
};
using ContextPtr = std::shared_ptr<DistAutogradContext>;

}  // namespace torch::distributed::autograd
