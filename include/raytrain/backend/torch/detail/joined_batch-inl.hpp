// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <raytrain/backend/torch/detail/collective_memory.hpp>
#include <raytrain/backend/torch/detail/joined_batch.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE auto JoinedBatch::moments_of(at::Tensor const& x, Pass pass) -> Moments {
  torch::NoGradGuard const no_grad;
  auto const channels = static_cast<std::size_t>(x.size(1));
  auto const options = at::TensorOptions{torch::kDouble}.device(exchange_device(collective_, x.device()));
  auto const own = at::zeros({2 * x.size(1) + 1}, options);  // means, variances, values per channel
  if (x.numel() > 0) {
    auto const [mean, variance] = at::batch_norm_update_stats(x, {}, {}, 0);
    own.narrow(0, 0, x.size(1)).copy_(mean);
    own.narrow(0, x.size(1), x.size(1)).copy_(variance);
    own[-1].fill_(static_cast<double>(x.numel() / x.size(1)));
  }
  auto const gathered = at::empty({own.numel() * collective_.size().value}, options);
  set_tag(pass);
  collective_.all_gather(elements_of<double const>(own), elements_of<double>(gathered));
  auto const on_cpu = gathered.cpu();
  auto const all = elements_of<double const>(on_cpu);

  std::vector<double> mean(channels);
  std::vector<double> squares(channels);  // of the distances from the mean, summed up
  double count = 0;
  for (std::size_t begin = 0; begin < all.size(); begin += 2 * channels + 1) {
    auto const more = all[begin + 2 * channels];
    if (more == 0) continue;
    for (std::size_t c = 0; c < channels; ++c) {
      auto const distance = all[begin + c] - mean[c];
      mean[c] += distance * more / (count + more);
      squares[c] += all[begin + channels + c] * more + distance * distance * count * more / (count + more);
    }
    count += more;
  }
  auto const tensor_of = [&](std::vector<double> const& values) {
    return torch::tensor(values, torch::kDouble).to(x.device(), x.scalar_type());
  };
  for (auto& each : squares) each /= count;
  return {tensor_of(mean), tensor_of(squares), count};
}

RAYTRAIN_TORCH_INLINE void JoinedBatch::sum(at::Tensor const& values, Pass pass) {
  auto const exchanged = values.to(exchange_device(collective_, values.device()));
  set_tag(pass);
  collective_.all_reduce(elements_of<double>(exchanged), ReduceOp::sum);
  if (!exchanged.is_same(values)) values.copy_(exchanged);
}

RAYTRAIN_TORCH_INLINE void JoinedBatch::set_tag(Pass pass) {
  collective_.tag() = {.of = CallOf::layer,
                       .model = pass.model,
                       .part = pass.layer,
                       .epoch = static_cast<std::uint16_t>(worker_step_->position.epoch),
                       .number = pass.forward,
                       .samples = static_cast<std::uint32_t>(worker_step_->position.samples)};
}

}  // namespace raytrain::detail
