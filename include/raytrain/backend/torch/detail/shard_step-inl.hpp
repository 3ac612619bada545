// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <raytrain/backend/torch/detail/shard_step.hpp>
#include <raytrain/collective/shard_average.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/shard_turn.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void ShardStep::begin_turn(ShardTurn turn) {
  if (turn_ == turn && backward_ == 0) return;
  if (turn.index == 0) {
    is_within_step_ = false;
    buffers_before_ = turn.count > 1 ? copy_of_buffers() : std::vector<at::Tensor>{};
    backwards_ = 0;
    held_.reset();
  } else {
    if (turn.index == 1) {
      backwards_ = backward_;
      if (collective_.rank() == Rank{0}) buffers_of_shard_0_ = copy_of_buffers();
    }
    set_buffers(buffers_before_);
  }
  turn_ = turn;
  backward_ = 0;
}

RAYTRAIN_TORCH_INLINE void ShardStep::begin_backward() {
  if (!turn_) {
    throw Error{Errc::invalid_call, "averaging gradients over virtual shards",
                "backward() was called before a batch of a split dataset was taken, so that nobody knows of which "
                "shard the gradients are",
                "take batches by ctx.dataset_shard(...).batches(...), or leave ScalingConfig::virtual_shards out"};
  }
  if (turn_->index > 0 && backward_ >= backwards_) {
    throw Error{Errc::invalid_call, "averaging gradients over virtual shards",
                "backward() was called more often for this batch than for the first one of the step, " +
                    std::to_string(backwards_) + " times",
                "call it equally often for each batch, and step the optimizer where Batch::ends_step() says so"};
  }
  if (backward_ > 0) arena_.set_aside();
  if (turn_->count > 1 && collective_.rank() == Rank{0}) change_sum();
  if (turn_->index > 0 && collective_.rank() == Rank{0}) return arena_.keep_sum();
  arena_.begin_backward();
  if (backward_ > 0) return;
  if (collective_.rank() == Rank{0}) {
    arena_.scale_gradients(turn_->shards);
  } else {
    arena_.drop_gradients();
  }
}

RAYTRAIN_TORCH_INLINE auto ShardStep::end_backward(std::uint64_t parameters) -> bool {
  if (turn_->index == 0 && backward_ == 0) parameters_ = parameters;
  if (parameters != parameters_ && turn_->index > 0) {
    throw Error{Errc::invalid_call, "averaging gradients over virtual shards",
                "the parameters have changed between two batches of one step, whose gradients were not complete",
                "step the optimizer only where Batch::ends_step() says so"};
  }
  ++backward_;
  arena_.gather();
  arena_.for_each_array([&]<class T>(std::span<T> values) {
    if (turn_->is_padding) std::ranges::fill(values, nothing_to_add<T>);
    add_in_shard_order(collective_, values, *turn_);
  });
  is_within_step_ = !turn_->ends_step();
  if (is_within_step_) {
    arena_.drop_gradients();
    return false;
  }
  arena_.show();
  if (turn_->count == 1) return true;
  held_.reset();  // the arena holds the mean from now on
  if (collective_.rank() == Rank{0}) set_buffers(buffers_of_shard_0_);
  return true;
}

RAYTRAIN_TORCH_INLINE void ShardStep::change_sum() {
  if (sums_.size() <= backward_) sums_.resize(backward_ + 1);
  if (held_ == backward_) return;
  if (held_) save(sums_[*held_]);
  if (turn_->index > 0) load(sums_[backward_]);
  held_ = backward_;
}

RAYTRAIN_TORCH_INLINE void ShardStep::save(Sum& sum) {
  std::size_t index = 0;
  arena_.for_each_array([&](auto values) {
    auto const bytes = std::as_bytes(values);
    if (sum.size() <= index) sum.emplace_back(bytes.size());
    std::ranges::copy(bytes, sum[index++].begin());
  });
}

RAYTRAIN_TORCH_INLINE void ShardStep::load(Sum const& sum) {
  std::size_t index = 0;
  arena_.for_each_array([&](auto values) {
    std::memcpy(values.data(), sum[index].data(), sum[index].size());
    ++index;
  });
}

RAYTRAIN_TORCH_INLINE auto ShardStep::copy_of_buffers() const -> std::vector<at::Tensor> {
  torch::NoGradGuard const no_grad;
  std::vector<at::Tensor> copies;
  for (auto const& buffer : buffers_) copies.push_back(buffer.clone());
  return copies;
}

RAYTRAIN_TORCH_INLINE void ShardStep::set_buffers(std::vector<at::Tensor> const& values) const {
  torch::NoGradGuard const no_grad;
  for (std::size_t i = 0; i < values.size(); ++i) buffers_[i].copy_(values[i]);
}

}  // namespace raytrain::detail
