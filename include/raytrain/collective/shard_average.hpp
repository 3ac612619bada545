// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/combine.hpp>
#include <raytrain/collective/detail/reduce.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/shard_position.hpp>

namespace raytrain {

namespace detail {

/// What added to any number gives that number: for floating-point numbers not 0, which makes -0 a 0.
template <class T>
inline constexpr T nothing_to_add = std::is_floating_point_v<T> ? T(-0.0) : T{};

/// Adds the values of all ranks in the order of their shards to the sum of the turns before, which is a part of rank
/// 0's. In the turn that ends a step every rank gets the mean, before it rank 0 alone the sum.
template <Element T>
void add_in_shard_order(Collective& collective, std::span<T> values, ShardTurn turn) {
  if (turn.count == 1) {
    collective.all_reduce(values, ReduceOp::average);
  } else if (turn.ends_step()) {
    collective.all_reduce(values, ReduceOp::sum);
    Reducers::of<T>().divide(std::as_writable_bytes(values), turn.shards);
  } else {
    collective.reduce(values, ReduceOp::sum, Rank{0});
  }
}

}  // namespace detail

/// The mean over all shards of a step, of an array that a worker computes anew for each of its batches: gradients, with
/// or without `ScalingConfig::virtual_shards`. Shards are added in their order, so that with virtual shards the mean
/// has the same bits with any number of workers.
///
///     raytrain::ShardAverage<float> average{ctx.collective()};
///     for (auto const& batch : shard.batches({...})) {
///       std::ranges::fill(gradient, 0.0F);
///       add_gradient_of(batch, gradient);
///       if (average.add(gradient, batch.turn())) take_step(gradient);
///     }
///
/// Threads: the worker's. One object for each array.
template <Element T>
requires std::is_arithmetic_v<T>
class ShardAverage {
 public:
  /// `collective`: outlives it.
  explicit ShardAverage(Collective& collective) noexcept : collective_{collective} {}

  /// A group operation, once for each batch, with its `Batch::turn()`. When that ends the step it is true, and `values`
  /// are the mean; integers round toward zero. Otherwise what they are is not said. Values of a padding batch do not
  /// count.
  ///
  /// Errors: as `Collective`; `invalid_call` for a turn out of order, or another size within a step.
  auto add(std::span<T> values, ShardTurn turn) -> bool {
    check(values.size(), turn);
    if (turn.is_padding) std::ranges::fill(values, detail::nothing_to_add<T>);
    auto const has_sum = turn.index > 0 && collective_.rank() == Rank{0};
    for (std::size_t i = 0; has_sum && i < values.size(); ++i)
      values[i] = detail::combine<ReduceOp::sum>(sum_[i], values[i]);
    detail::add_in_shard_order(collective_, values, turn);
    next_ = turn.ends_step() ? 0 : turn.index + 1;
    if (turn.ends_step()) return true;
    size_ = values.size();
    if (collective_.rank() == Rank{0}) sum_.assign(values.begin(), values.end());
    return false;
  }

 private:
  void check(std::size_t size, ShardTurn turn) const {
    if (turn.index != next_) {
      throw Error{
          Errc::invalid_call, "ShardAverage::add",
          "was called for turn " + std::to_string(turn.index) + " of a step, and is at turn " + std::to_string(next_),
          "call it once for each batch of an epoch, in their order"};
    }
    if (turn.index == 0 || size == size_) return;
    throw Error{Errc::invalid_call, "ShardAverage::add",
                "was called with " + std::to_string(size) + " values, and with " + std::to_string(size_) +
                    " earlier in this step",
                "use one ShardAverage for each array"};
  }

  Collective& collective_;
  std::vector<T> sum_;  ///< Of the turns before, on rank 0.
  std::size_t size_ = 0;
  std::uint32_t next_ = 0;  ///< Turn.
};

}  // namespace raytrain
