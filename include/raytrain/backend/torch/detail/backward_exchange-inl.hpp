// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>

#include <raytrain/backend/torch/detail/backward_exchange.hpp>
#include <raytrain/backend/torch/detail/gradient_arena.hpp>
#include <raytrain/backend/torch/detail/model_exchange.hpp>
#include <raytrain/backend/torch/detail/one_openmp_thread.hpp>
#include <raytrain/backend/torch/detail/side_stream.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/signs_of_life.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE BackwardExchange::BackwardExchange(GradientArena& arena, ModelExchange const& exchange,
                                                         Collective& collective)
    : arena_{arena},
      exchange_{exchange},
      collective_{collective},
      buckets_{arena.cut_into_buckets(exchange.bucket_bytes())},
      bucket_of_(arena.size()),
      order_(buckets_.size()) {
  std::iota(order_.begin(), order_.end(), 0U);
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (auto const parameter : buckets_[bucket].parameters) bucket_of_[parameter] = bucket;
  }
  if (collective.takes_device_arrays()) stream_ = std::make_unique<SideStream>(arena.device());
  thread_.post([] { use_one_openmp_thread(); });
}

RAYTRAIN_TORCH_INLINE BackwardExchange::~BackwardExchange() {
  if (!is_open_) return;
  try {
    while (left_ > 0) post(order_[--left_]);
    wait();
  } catch (...) {
    return;  // nobody takes the values
  }
}

RAYTRAIN_TORCH_INLINE void BackwardExchange::begin(CallTag const& tag, double scale) {
  if (is_open_ && left_ < buckets_.size()) {
    throw Error{Errc::invalid_call, "averaging gradients",
                "the backward before this one has failed when some of its gradients were on their way to other ranks",
                "prepare the model again, on every rank, or set ModelOptions::overlap to Overlap::off"};
  }
  is_open_ = true;
  collective_.tag() = tag;
  scale_ = scale;
  left_ = buckets_.size();
  exchanged_ = 0;
  is_launched_.assign(buckets_.size(), false);
  has_arrived_.assign(bucket_of_.size(), false);
  complete_.clear();
  missing_.clear();
  for (auto const& bucket : buckets_) missing_.push_back(bucket.parameters.size());
}

RAYTRAIN_TORCH_INLINE void BackwardExchange::arrive(std::size_t parameter) {
  launch_complete();
  auto const bucket = bucket_of_[parameter];
  if (is_launched_[bucket]) {
    throw Error{Errc::invalid_call, "averaging gradients during a backward",
                "parameter '" + arena_.name(parameter) + "' gets a second gradient in it, after its first one is on " +
                    "its way to other ranks",
                "set ModelOptions::overlap to Overlap::off for a model of which a backward runs another one"};
  }
  if (has_arrived_[parameter]) {
    arrives_again_ = true;
    return;
  }
  has_arrived_[parameter] = true;
  if (--missing_[bucket] == 0) complete_.push_back(static_cast<std::uint32_t>(bucket));
}

RAYTRAIN_TORCH_INLINE void BackwardExchange::launch_complete() {
  while (left_ > 0 && missing_[order_[left_ - 1]] == 0) launch();
}

RAYTRAIN_TORCH_INLINE void BackwardExchange::launch() {
  auto const bucket = order_[left_ - 1];
  prepare(bucket);
  --left_;
  is_launched_[bucket] = true;
  post(bucket);
}

RAYTRAIN_TORCH_INLINE void BackwardExchange::follow_gradients(Collective& ordering) {
  follows_gradients_ = true;
  if (arrives_again_) complete_.clear();
  // Behind those that are complete come the others as they are.
  auto const is_other = [&](std::uint32_t bucket) { return std::ranges::find(complete_, bucket) == complete_.end(); };
  auto const others = std::ranges::stable_partition(order_, is_other);
  std::ranges::reverse_copy(complete_, others.begin());
  ordering.broadcast(order_, Rank{0});
}

RAYTRAIN_TORCH_INLINE void BackwardExchange::post(std::size_t bucket) {
  if (stream_) stream_->follow();
  thread_.post([this, bucket] {
    std::exception_ptr error;
    try {
      if (std::scoped_lock const lock{mutex_}; error_ != nullptr) return;
      stream_ ? stream_->run([&] { exchange(bucket); }) : exchange(bucket);
    } catch (...) {
      error = std::current_exception();
    }
    std::scoped_lock const lock{mutex_};
    ++exchanged_;
    error_ = error;
    changed_.notify_one();
  });
}

RAYTRAIN_TORCH_INLINE void BackwardExchange::prepare(std::size_t bucket) {
  torch::NoGradGuard const no_grad;
  arena_.gather(buckets_[bucket]);
  if (scale_ != 1) arena_.contents_of(buckets_[bucket], {}).values.mul_(scale_);
}

RAYTRAIN_TORCH_INLINE void BackwardExchange::exchange(std::size_t bucket) {
  torch::NoGradGuard const no_grad;
  exchange_.average(arena_.contents_of(buckets_[bucket], {.index = bucket, .count = buckets_.size()}, true),
                    collective_);
}

RAYTRAIN_TORCH_INLINE void BackwardExchange::end_backward() {
  while (left_ > 0) launch();
}

RAYTRAIN_TORCH_INLINE void BackwardExchange::finish(Collective& ordering) {
  wait();
  if (exchange_) arena_.clear_gaps();
  is_open_ = false;
  if (!follows_gradients_) follow_gradients(ordering);
}

RAYTRAIN_TORCH_INLINE void BackwardExchange::wait() {
  SignsOfLife::During const waits{SignsOfLife::Activity::waits};
  std::unique_lock lock{mutex_};
  for (std::size_t seen = 0; error_ == nullptr && seen < buckets_.size(); seen = exchanged_) {
    changed_.wait(lock, [&] { return error_ != nullptr || exchanged_ > seen || exchanged_ == buckets_.size(); });
    SignsOfLife::beat_here();
  }
  if (stream_) stream_->join();
  if (error_ != nullptr) std::rethrow_exception(error_);
}

}  // namespace raytrain::detail
