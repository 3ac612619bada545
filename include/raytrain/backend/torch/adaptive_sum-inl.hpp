// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <raytrain/backend/torch/adaptive_sum.hpp>
#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/collective/adasum.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

class AdaptiveSum final : public GradientExchange {
 public:
  void exchange(GradientBucket const& bucket, Collective& collective) override {
    for (auto const& part : bucket.parts) {
      if (part.gradient.scalar_type() == torch::kDouble) {
        combine<double>(part.gradient, collective);
      } else {
        combine<float>(part.gradient, collective);
      }
    }
  }

  [[nodiscard]] auto allows_overlap() const -> bool override { return true; }

  [[nodiscard]] auto averages() const -> bool override { return false; }

  [[nodiscard]] auto description() const -> std::string override { return "adaptive_sum"; }

 private:
  template <class T>
  static void combine(at::Tensor const& gradient, Collective& collective) {
    if (gradient.numel() == 0) return;
    adasum(collective, std::span{gradient.data_ptr<T>(), static_cast<std::size_t>(gradient.numel())});
  }
};

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE auto adaptive_sum() -> std::shared_ptr<GradientExchange> {
  return std::make_shared<detail::AdaptiveSum>();
}

}  // namespace raytrain
