// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <raytrain/backend/torch/detail/worker_step.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void RanksWithBatch::check_may_ask(std::uint32_t virtual_shards,
                                                         AccumulationWindow const& window) {
  constexpr auto attempted = "joining workers of which some have no batch";
  if (virtual_shards > 0) {
    throw Error{Errc::invalid_call, attempted,
                fmt::format("the run has {} virtual shards, each of which has as many batches", virtual_shards),
                "take batches by ctx.dataset_shard(...).batches(...), or leave ScalingConfig::virtual_shards out"};
  }
  if (window.is_open()) {
    throw Error{Errc::invalid_call, attempted,
                fmt::format("join() was called within a window of {} batches, behind batch {} of it", window.length(),
                            window.count()),
                "call it before the first batch of a window, and give accumulate() true for is_last in a worker's last "
                "batch"};
  }
}

RAYTRAIN_TORCH_INLINE auto RanksWithBatch::ask(Collective& collective, bool has_batch) -> bool {
  ++calls_;
  own_.reset();
  factor_ = 1;
  first_ = Rank{0};
  if (collective.size() == WorldSize{1}) {
    if (has_batch) own_ = true;
    return has_batch;
  }
  TaggedCollective joining{collective, {.of = CallOf::join, .number = calls_}};
  std::vector<std::uint8_t> all(collective.size().value);
  std::uint8_t const own = has_batch ? 1 : 0;
  joining.all_gather(std::span{&own, 1}, all);
  auto const first = std::ranges::find(all, std::uint8_t{1});
  if (first == all.end()) return false;
  own_ = has_batch;
  first_ = Rank{static_cast<std::uint32_t>(first - all.begin())};
  factor_ = static_cast<double>(all.size()) / static_cast<double>(std::ranges::count(all, std::uint8_t{1}));
  return true;
}

RAYTRAIN_TORCH_INLINE void RanksWithBatch::check_backward(std::uint16_t model) const {
  if (own_ != false) return;
  throw Error{
      Errc::invalid_call, "averaging gradients",
      fmt::format("backward() was called for model {} by a worker that has no batch, as it has told join()", model),
      "call ctx.shadow_backward(model) in its place, or give join() true"};
}

RAYTRAIN_TORCH_INLINE void RanksWithBatch::check_shadow_backward() const {
  if (own_ == false) return;
  throw Error{Errc::invalid_call, "a backward without a batch",
              own_ ? "shadow_backward() was called by a worker that has a batch, as it has told join()"
                   : "shadow_backward() was called without join(), or when it was false",
              "call it where ctx.join(has_batch) was true and has_batch is false"};
}

}  // namespace raytrain::detail
