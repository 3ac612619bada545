// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/overlap_choice.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void OverlapChoice::begin_backward(std::size_t parameters) {
  has_arrived_.assign(parameters, false);
  backward_began_ = Clock::now();
}

RAYTRAIN_TORCH_INLINE void OverlapChoice::arrive(std::size_t parameter) {
  if (has_arrived_[parameter]) arrives_again_ = true;
  has_arrived_[parameter] = true;
}

RAYTRAIN_TORCH_INLINE void OverlapChoice::begin_exchange() { exchange_began_ = Clock::now(); }

RAYTRAIN_TORCH_INLINE void OverlapChoice::end_exchange(Collective& collective) {
  auto const now = Clock::now();
  add({.all = now - backward_began_, .exchange = now - exchange_began_}, collective);
}

RAYTRAIN_TORCH_INLINE void OverlapChoice::add(Times const& times, Collective& collective) {
  if (is_made()) return;
  auto const overlapped = overlaps();
  if (++count_ <= not_counted) return;
  auto& [first, second] = times_;
  if (stage_ == Stage::looking) {
    first.push_back(times.all.count());
    second.push_back(times.exchange.count());
  } else {
    times_[overlapped ? 1 : 0].push_back(times.all.count());
  }
  if (std::ranges::min({first.size(), second.size()}) < of_each) return;
  auto const median = [](std::vector<double>& all) {
    std::ranges::nth_element(all, all.begin() + of_each / 2);
    return std::exchange(all, {})[of_each / 2];
  };
  // The third is 0 only if no rank objects.
  std::array<double, 3> agreed{median(first), median(second), may_pay_ && !arrives_again_ ? 0.0 : 1.0};
  collective.all_reduce(agreed, ReduceOp::average);
  medians_ = {agreed[0], agreed[1]};
  count_ = 0;
  auto const may_pay = agreed[2] == 0;
  if (stage_ == Stage::looking) {
    stage_ = may_pay && agreed[1] > smallest_share * agreed[0] ? Stage::both : Stage::behind;
  } else {
    stage_ = may_pay && agreed[1] < agreed[0] ? Stage::beside : Stage::behind;
  }
}

RAYTRAIN_TORCH_INLINE auto OverlapChoice::text() const -> std::string {
  auto const [behind, beside] = medians_;
  return overlaps() ? fmt::format("during its backwards, which take {:.2f} ms instead of {:.2f} ms", beside, behind)
                    : fmt::format("after its backwards, which take {:.2f} ms instead of {:.2f} ms", behind, beside);
}

}  // namespace raytrain::detail
