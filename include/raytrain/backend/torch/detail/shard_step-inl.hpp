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
#include <raytrain/core/shard_position.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void ShardStep::begin_turn(ShardTurn turn) {
  if (turn.index == 0) {
    end_turns();
    is_within_step_ = false;
    buffers_before_ = turn.count > 1 ? copy_of_buffers() : std::vector<at::Tensor>{};
    sum_in_arena_.reset();
  } else {
    if (turn.index == 1) {
      backwards_per_turn_ = backwards_of_turn_;
      if (is_rank_0()) buffers_of_shard_0_ = copy_of_buffers();
    } else {
      check_backwards();
    }
    set_buffers(buffers_before_);
  }
  turn_ = turn;
  backwards_of_turn_ = 0;
}

RAYTRAIN_TORCH_INLINE void ShardStep::end_turns() {
  if (!turn_ || turn_->count == 1 || !turn_->ends_step()) return;  // a step that the program gave up is forgotten
  check_backwards();
  if (backwards_per_turn_ == 0 && is_rank_0()) set_buffers(buffers_of_shard_0_);
  turn_.reset();
}

RAYTRAIN_TORCH_INLINE void ShardStep::check_backwards() const {
  if (backwards_of_turn_ >= backwards_per_turn_) return;
  throw Error{Errc::invalid_call, "averaging gradients over virtual shards",
              "backward() was called " + std::to_string(backwards_of_turn_) + " times for a batch, and " +
                  std::to_string(backwards_per_turn_) + " times for the first one of its step",
              "call it equally often for each batch of a step: also where is_padding() is true, or a loss is not "
              "finite"};
}

RAYTRAIN_TORCH_INLINE void ShardStep::check_parameters(std::uint64_t parameters) const {
  auto const has_begun = turn_ && (backwards_of_turn_ > 0 || (turn_->index > 0 && backwards_per_turn_ > 0));
  if (!has_begun || parameters == parameters_) return;
  throw Error{Errc::invalid_call, "averaging gradients over virtual shards",
              "a model's parameters have changed between two backwards of one step",
              "step all optimizers behind all backwards, where Batch::ends_step() says so"};
}

RAYTRAIN_TORCH_INLINE void ShardStep::begin_backward(std::uint64_t parameters) {
  if (!turn_) {
    throw Error{Errc::invalid_call, "averaging gradients over virtual shards",
                "backward() was called before a batch of a split dataset was taken, so that nobody knows of which "
                "shard the gradients are",
                "take batches by ctx.dataset_shard(...).batches(...), or leave ScalingConfig::virtual_shards out"};
  }
  if (turn_->index > 0 && backwards_of_turn_ >= backwards_per_turn_) {
    throw Error{Errc::invalid_call, "averaging gradients over virtual shards",
                "backward() was called more often for this batch than for the first one of the step, " +
                    std::to_string(backwards_per_turn_) + " times",
                "call it equally often for each batch, and step the optimizer where Batch::ends_step() says so"};
  }
  auto const is_first = backwards_of_turn_ == 0;
  if (is_first && turn_->index == 0) parameters_ = parameters;
  if (!is_first) arena_.set_aside();
  if (turn_->count > 1 && is_rank_0()) swap_in_sum();
  if (turn_->index > 0 && is_rank_0()) return arena_.keep_sum();
  arena_.begin_backward();
  if (!is_first) return;
  if (is_rank_0()) {
    arena_.scale_gradients(turn_->shards);
  } else {
    arena_.drop_gradients();
  }
}

RAYTRAIN_TORCH_INLINE auto ShardStep::end_backward() -> bool {
  ++backwards_of_turn_;
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
  arena_.show_gradients();
  sum_in_arena_.reset();  // it holds the mean from now on
  return true;
}

RAYTRAIN_TORCH_INLINE void ShardStep::keep_buffers() {
  buffers_after_.resize(std::max(buffers_after_.size(), backwards_of_turn_));
  buffers_after_.at(backwards_of_turn_ - 1) = copy_of_buffers();
}

RAYTRAIN_TORCH_INLINE void ShardStep::swap_in_sum() {
  auto const backward = backwards_of_turn_;
  if (sums_.size() <= backward) sums_.resize(backward + 1);
  if (sum_in_arena_ == backward) return;
  if (sum_in_arena_) save(sums_[*sum_in_arena_]);
  if (turn_->index > 0) load(sums_[backward]);
  sum_in_arena_ = backward;
}

RAYTRAIN_TORCH_INLINE void ShardStep::save(Arrays& sum) {
  std::size_t index = 0;
  arena_.for_each_array([&](auto values) {
    auto const bytes = std::as_bytes(values);
    if (sum.size() <= index) sum.emplace_back(bytes.size());
    std::ranges::copy(bytes, sum[index++].begin());
  });
}

RAYTRAIN_TORCH_INLINE void ShardStep::load(Arrays const& sum) {
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

// Not counted as a change where that can be, by which buffers of 64 KiB and more would be sent in each step.
RAYTRAIN_TORCH_INLINE void ShardStep::set_buffers(std::vector<at::Tensor> const& values) const {
  torch::NoGradGuard const no_grad;
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto const& buffer = buffers_[i];
    if (!buffer.is_cpu()) {
      buffer.variable_data().copy_(values[i]);
    } else if (buffer.is_contiguous() && values[i].is_contiguous() && buffer.nbytes() == values[i].nbytes()) {
      if (buffer.nbytes() > 0) std::memcpy(buffer.data_ptr(), values[i].data_ptr(), buffer.nbytes());
    } else {
      buffer.copy_(values[i]);
    }
  }
}

}  // namespace raytrain::detail
