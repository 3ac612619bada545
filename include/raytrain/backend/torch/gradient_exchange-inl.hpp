// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <raytrain/backend/torch/detail/collective_memory.hpp>
#include <raytrain/backend/torch/detail/exchange_in_float.hpp>
#include <raytrain/backend/torch/detail/gradient_element.hpp>
#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/collective/adasum.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/current_error.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE auto GradientExchange::description() const -> std::string {
  return detail::demangled(typeid(*this).name());
}

}  // namespace raytrain

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

namespace raytrain::detail {

class AdaptiveSum final : public GradientExchange {
 public:
  void exchange(GradientBucket const& bucket, Collective& collective) override {
    if (is_short(bucket.values.scalar_type())) {
      return exchange_in_float(bucket, [&](GradientBucket const& wide) { exchange(wide, collective); });
    }
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
    auto const values = elements_of<T>(gradient);
    collective.takes_device_arrays() ? combine_on_device<T>(gradient, collective) : adasum(collective, values);
  }

  /// What `adasum` does, with operations of the device that the gradient is on.
  template <class T>
  static void combine_on_device(at::Tensor const& gradient, Collective& collective) {
    torch::NoGradGuard const no_grad;
    auto const size = gradient.numel();
    auto const world = std::int64_t{collective.size().value};
    auto const slice = (size + world - 1) / world;
    auto const whole = at::zeros({world * slice}, gradient.options());
    whole.narrow(0, 0, size).copy_(gradient.as_strided({size}, {1}));
    std::vector<at::Tensor> slices;
    for (std::uint32_t rank = 0; rank < collective.size().value; ++rank) {
      slices.push_back(at::empty({slice}, gradient.options()));
      collective.scatter(elements_of<T const>(whole), elements_of<T>(slices.back()), Rank{rank});
    }
    while (slices.size() > 1) {
      std::vector<at::Tensor> combined;
      std::vector<at::Tensor> of_pairs;
      for (std::size_t i = 0; i + 1 < slices.size(); i += 2) {
        auto const a = slices[i].to(torch::kDouble), b = slices[i + 1].to(torch::kDouble);
        of_pairs.push_back(at::stack({a.dot(b), a.dot(a), b.dot(b)}));
      }
      auto const products = at::stack(of_pairs);
      collective.all_reduce(elements_of<double>(products), ReduceOp::sum);
      for (std::size_t i = 0; i < of_pairs.size(); ++i) {
        auto const of_pair = products[static_cast<std::int64_t>(i)];
        auto const share = [&](at::Tensor const& square) {
          return at::where(square == 0, at::ones_like(square), 1 - of_pair[0] / (2 * square));
        };
        combined.push_back(
            (share(of_pair[1]) * slices[2 * i] + share(of_pair[2]) * slices[2 * i + 1]).to(gradient.scalar_type()));
      }
      if (slices.size() % 2 == 1) combined.push_back(slices.back());
      slices = std::move(combined);
    }
    std::vector<std::size_t> counts;
    for (auto left = size; std::ssize(counts) < world; left -= static_cast<std::int64_t>(counts.back())) {
      counts.push_back(static_cast<std::size_t>(std::min(left, slice)));
    }
    collective.all_gatherv(elements_of<T const>(slices[0]).first(counts[collective.rank().value]),
                           elements_of<T>(gradient), counts);
  }
};

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE auto adaptive_sum() -> std::shared_ptr<GradientExchange> {
  return std::make_shared<detail::AdaptiveSum>();
}

}  // namespace raytrain
