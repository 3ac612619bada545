// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <string_view>

#include <raytrain/backend/torch/compression.hpp>
#include <raytrain/backend/torch/detail/collective_memory.hpp>
#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

/// Lets gradients travel as `T`, `type` in LibTorch.
template <Element T, at::ScalarType type>
class CompressedExchange final : public GradientExchange {
 public:
  void exchange(GradientBucket const& bucket, Collective& collective) override {
    auto const size = bucket.values.numel();
    auto const options = bucket.values.options().dtype(type);
    auto const sent = memory_.at_least(size, options, collective).narrow(0, 0, size).view(bucket.values.sizes());
    sent.copy_(bucket.values);
    // Summed in float, so that fp16 does not overflow where its average would not.
    collective.all_reduce(elements_of<T>(sent), ReduceOp::average);
    bucket.values.copy_(sent);
  }

  [[nodiscard]] auto allows_overlap() const -> bool override { return true; }

  [[nodiscard]] auto description() const -> std::string override {
    return "compressed(" + std::string{raytrain::to_string(element_type<T>)} + ")";
  }

 private:
  CollectiveMemory memory_;
};

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE auto to_string(Compression compression) noexcept -> std::string_view {
  switch (compression) {
    case Compression::none: return "none";
    case Compression::bf16: return "bf16";
    case Compression::fp16: return "fp16";
  }
  return "unknown";
}

RAYTRAIN_TORCH_INLINE auto compression_named(std::string_view name) -> Compression {
  for (auto const compression : {Compression::none, Compression::bf16, Compression::fp16}) {
    if (name == to_string(compression)) return compression;
  }
  throw Error{Errc::invalid_config, "a compression", "must be none, bf16 or fp16 (got '" + std::string{name} + "')",
              "write one of these"};
}

RAYTRAIN_TORCH_INLINE auto compressed(Compression compression) -> std::shared_ptr<GradientExchange> {
  switch (compression) {
    case Compression::none: break;
    case Compression::bf16: return std::make_shared<detail::CompressedExchange<BFloat16, torch::kBFloat16>>();
    case Compression::fp16: return std::make_shared<detail::CompressedExchange<Float16, torch::kHalf>>();
  }
  return nullptr;
}

}  // namespace raytrain
