// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <tuple>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/joined_batch.hpp>
#include <raytrain/backend/torch/sync_batch_norm.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

/// Normalises by moments of the joined batch, whose gradients go to all workers' parts of it.
struct JoinedNormalization : torch::autograd::Function<JoinedNormalization> {
  /// What a backward needs beside tensors.
  struct Pass : torch::CustomClassHolder {
    std::weak_ptr<JoinedBatch> joined;
    JoinedBatch::Pass pass;
    double count = 0;
    double eps = 0;
  };

  static auto forward(torch::autograd::AutogradContext* ctx, at::Tensor const& x, at::Tensor const& weight,
                      at::Tensor const& bias, JoinedBatch::Moments const& moments, c10::intrusive_ptr<Pass> pass)
      -> at::Tensor {
    auto const eps = pass->eps;
    ctx->save_for_backward({x, weight, moments.mean, moments.variance});
    ctx->saved_data["pass"] = c10::IValue::make_capsule(std::move(pass));
    return at::batch_norm(x, weight, bias, moments.mean, moments.variance, /*training=*/false, 0, eps, false);
  }

  static auto backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list gradients)
      -> torch::autograd::variable_list {
    auto const pass = c10::static_intrusive_pointer_cast<Pass>(ctx->saved_data["pass"].toCapsule());
    auto const joined = pass->joined.lock();
    auto const saved = ctx->get_saved_variables();
    auto const &x = saved[0], &weight = saved[1], &mean = saved[2], &variance = saved[3];
    if (joined == nullptr || at::GradMode::is_enabled()) {
      throw Error{Errc::invalid_call, "the backward of a SyncBatchNorm",
                  joined == nullptr ? "is called when the training function has returned"
                                    : "is called with create_graph, and has no gradient of its own",
                  "call it in the training function, without create_graph"};
    }
    // Those of given moments: what is missing comes through the moments.
    auto [of_x, of_weight, of_bias] =
        x.numel() > 0 ? at::native_batch_norm_backward(gradients[0], x, weight, mean, variance, {}, {}, /*train=*/false,
                                                       pass->eps, {true, true, true})
                      : std::tuple{at::zeros_like(x), at::zeros_like(weight), at::zeros_like(weight)};
    auto const sums = at::empty({2, x.size(1)}, x.options().dtype(torch::kDouble));
    sums[0].copy_(of_bias);
    sums[1].copy_(of_weight);
    joined->sum(sums, pass->pass);
    auto const per_channel = [&](at::Tensor const& values) {
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.dim()), 1);
      sizes[1] = x.size(1);
      return values.to(x.scalar_type()).view(sizes);
    };
    auto const inverse_deviation = (variance.to(torch::kDouble) + pass->eps).rsqrt();
    auto const factor = weight.to(torch::kDouble) * inverse_deviation / pass->count;
    auto through_moments = x - per_channel(mean);
    through_moments.mul_(per_channel(factor * inverse_deviation * sums[1])).add_(per_channel(factor * sums[0]));
    return {of_x.sub_(through_moments), of_weight, of_bias, {}, {}};
  }
};

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE auto SyncBatchNormImpl::forward(at::Tensor const& input) -> at::Tensor {
  _check_input_dim(input);
  auto const joined = is_training() ? joined_.lock() : nullptr;
  return joined == nullptr ? forward_alone(input) : forward_joined(input, joined);
}

RAYTRAIN_TORCH_INLINE void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "raytrain::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ", momentum=";
  options.momentum() ? stream << *options.momentum() : stream << "none";
  stream << ", affine=" << options.affine() << ", track_running_stats=" << options.track_running_stats() << ")";
}

RAYTRAIN_TORCH_INLINE void SyncBatchNormImpl::_check_input_dim(at::Tensor const& input) {
  if (input.dim() >= 2 && input.size(1) == options.num_features() && input.is_floating_point()) return;
  throw Error{Errc::invalid_call, "SyncBatchNorm::forward",
              fmt::format("takes floating-point numbers of N x {0} or N x {0} x ... (got {1} of {2})",
                          options.num_features(), c10::toString(input.scalar_type()), c10::str(input.sizes())),
              "give it as many features as the input has channels"};
}

RAYTRAIN_TORCH_INLINE auto SyncBatchNormImpl::count_batch() -> double {
  if (!is_training() || !num_batches_tracked.defined()) return options.momentum().value_or(0);
  num_batches_tracked += 1;
  return options.momentum() ? *options.momentum() : 1 / num_batches_tracked.item<double>();
}

RAYTRAIN_TORCH_INLINE auto SyncBatchNormImpl::forward_alone(at::Tensor const& input) -> at::Tensor {
  auto const share = count_batch();
  return torch::nn::functional::batch_norm(input, running_mean, running_var,
                                           torch::nn::functional::BatchNormFuncOptions{}
                                               .weight(weight)
                                               .bias(bias)
                                               .training(is_training() || !running_mean.defined())
                                               .momentum(share)
                                               .eps(options.eps()));
}

RAYTRAIN_TORCH_INLINE auto SyncBatchNormImpl::forward_joined(at::Tensor const& input,
                                                             std::shared_ptr<detail::JoinedBatch> const& joined)
    -> at::Tensor {
  ++pass_.forward;
  auto const x = input.element_size() == 2 ? input.to(torch::kFloat) : input;
  auto const moments = joined->moments_of(x, pass_);
  if (moments.count < 2) {
    throw Error{Errc::invalid_call, "SyncBatchNorm::forward",
                fmt::format("a channel has {} values in the batches of all workers together", moments.count),
                "give it at least 2, which have a variance"};
  }
  auto const share = count_batch();
  if (running_mean.defined()) {
    torch::NoGradGuard const no_grad;
    running_mean.mul_(1 - share).add_(moments.mean, share);
    running_var.mul_(1 - share).add_(moments.variance, share * moments.count / (moments.count - 1));
  }
  auto pass = c10::make_intrusive<detail::JoinedNormalization::Pass>();
  pass->joined = joined;
  pass->pass = pass_;
  pass->count = moments.count;
  pass->eps = options.eps();
  auto const has_affine = weight.defined();
  auto const y = detail::JoinedNormalization::apply(
      x, has_affine ? weight : torch::ones({x.size(1)}, x.options().requires_grad(false)),
      has_affine ? bias : torch::zeros({x.size(1)}, x.options().requires_grad(false)), moments, std::move(pass));
  return y.to(input.scalar_type());
}

}  // namespace raytrain
