// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <cstddef>
#include <string>
#include <utility>

#include <raytrain/backend/torch/detail/collective_memory.hpp>
#include <raytrain/backend/torch/detail/gradient_arena.hpp>
#include <raytrain/backend/torch/detail/gradient_element.hpp>
#include <raytrain/backend/torch/detail/model_exchange.hpp>
#include <raytrain/backend/torch/model_options.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/object_exchange.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE ModelExchange::ModelExchange(ModelOptions const& options, WorldSize world)
    : bucket_bytes_{options.bucket_bytes},
      overlap_{options.overlap},
      broadcasts_buffers_{options.broadcast_buffers},
      world_{world} {
  if (options.exchange == nullptr) return;
  if (options.exchange->is_in_use_.exchange(true)) {
    throw Error{Errc::invalid_call, "preparing a model",
                "its ModelOptions::exchange, " + options.exchange->description() +
                    ", is that of another model, or of another worker",
                "make one for each model, within the training function"};
  }
  exchange_ = options.exchange;
}

RAYTRAIN_TORCH_INLINE ModelExchange::~ModelExchange() {
  if (exchange_ != nullptr) exchange_->is_in_use_ = false;
}

RAYTRAIN_TORCH_INLINE void ModelExchange::check_same_on_all_ranks(Collective& collective) const {
  if (collective.size() == WorldSize{1}) return;
  auto const all = all_gather_objects(collective, description());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw Error{Errc::rank_mismatch, "preparing a model",
                fmt::format("rank 0 has {}, and rank {} has {}", all[0], rank, all[rank]),
                "give the same ModelOptions on every rank"};
  }
}

RAYTRAIN_TORCH_INLINE auto ModelExchange::overlap() const -> Overlap {
  auto const is_out = exchange_ != nullptr && overlap_ == Overlap::measured && !exchange_->allows_overlap();
  return world_ == WorldSize{1} || is_out ? Overlap::off : overlap_;
}

RAYTRAIN_TORCH_INLINE void ModelExchange::average(GradientArena& arena, Collectives collectives) const {
  torch::NoGradGuard const no_grad;
  arena.gather();
  arena.for_each_count([&](auto values) { collectives.of_counts.all_reduce(values, ReduceOp::average); });
  auto const buckets = arena.cut_into_buckets(bucket_bytes_);
  for (std::size_t index = 0; index < buckets.size(); ++index) {
    average(arena.contents_of(buckets[index], {.index = index, .count = buckets.size()}), collectives.of_gradients);
  }
  arena.clear_gaps();
  arena.show_gradients();
}

RAYTRAIN_TORCH_INLINE void ModelExchange::average(GradientBucket const& bucket, Collective& collective) const {
  if (exchange_ != nullptr) return exchange_->exchange(bucket, collective);
  with_gradient_element(bucket.values.scalar_type(),
                        [&]<class T>(T) { collective.all_reduce(elements_of<T>(bucket.values), ReduceOp::average); });
}

RAYTRAIN_TORCH_INLINE auto ModelExchange::description() const -> std::string {
  auto const exchange =
      exchange_ == nullptr ? "no ModelOptions::exchange" : "ModelOptions::exchange " + exchange_->description();
  ModelOptions const usual;
  auto const overlap = overlap_ == usual.overlap ? "" : fmt::format(", ModelOptions::overlap {}", to_string(overlap_));
  auto const says_buckets = exchange_ != nullptr || overlap_ == Overlap::on ||
                            (overlap_ == Overlap::measured && bucket_bytes_ != usual.bucket_bytes);
  auto const buckets =
      says_buckets ? fmt::format("{} with {} bucket_bytes", overlap.empty() ? "" : ",", bucket_bytes_) : "";
  return exchange + overlap + buckets + (broadcasts_buffers_ ? "" : " and no ModelOptions::broadcast_buffers");
}

}  // namespace raytrain::detail
