// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <typeinfo>

#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/core/current_error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE auto GradientExchange::description() const -> std::string {
  return detail::demangled(typeid(*this).name());
}

}  // namespace raytrain
