// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include <raytrain/backend/torch/detail/overlap_choice.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void OverlapChoice::add(Duration time, Collective& collective) {
  if (is_made()) return;
  auto const overlapped = overlaps();
  if (++count_ <= not_counted) return;
  times_[overlapped ? 1 : 0].push_back(time.count());
  if (count_ < not_counted + 2 * of_each) return;
  for (std::size_t i = 0; i < times_.size(); ++i) {
    auto& times = times_[i];
    std::ranges::nth_element(times, times.begin() + of_each / 2);
    medians_[i] = times[of_each / 2];
  }
  collective.all_reduce(medians_, ReduceOp::average);
  chosen_ = medians_[1] < medians_[0];
}

RAYTRAIN_TORCH_INLINE auto OverlapChoice::text() const -> std::string {
  auto const [behind, beside] = medians_;
  return overlaps() ? fmt::format("during its backwards, which take {:.2f} ms instead of {:.2f} ms", beside, behind)
                    : fmt::format("after its backwards, which take {:.2f} ms instead of {:.2f} ms", behind, beside);
}

}  // namespace raytrain::detail
