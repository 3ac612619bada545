// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// Replaces every rank's `gradient`, that of one layer, by their adaptive sum, in the place of a mean: pairs of
/// ranks are combined, then pairs of these, and so on, where a and b become
///
///     (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b
///
/// That is the sum of gradients that are orthogonal, and the mean of equal ones, so that a learning rate for one worker
/// stays right for many. Of a number that is no power of two the last one waits for its pair. For large batches; each
/// layer has a call of its own.
///
/// A group operation: the same bits on every rank.
/// Errors: as `Collective`; not finite where a gradient is not, or is of double and so large, with a norm above 1e154,
///         that its square is not. Those of double below 1e-162, whose square is 0, are added.
/// Cost:   about 3 times the bytes of a sum, in world size + log2(world size) + 1 operations.
/// Source: S. Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021.
template <MutableElementArray R>
requires std::floating_point<ArrayElement<R>>
void adasum(Collective& collective, R&& gradient) {
  using T = ArrayElement<R>;
  auto const values = detail::span_of(gradient);
  auto const world = std::size_t{collective.size().value};
  // Each rank combines a slice, the same one of all gradients.
  auto const size = (values.size() + world - 1) / world;
  std::vector<T> whole(size * world);
  std::ranges::copy(values, whole.begin());
  std::vector<std::vector<T>> slices;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    collective.scatter(whole, slices.emplace_back(size), Rank{rank});
  }
  while (slices.size() > 1) {
    auto const pairs = slices.size() / 2;
    std::vector<double> products(3 * pairs);  // a.b, a.a and b.b of each
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      auto const &a = slices[2 * pair], &b = slices[2 * pair + 1];
      auto* const product = &products[3 * pair];
      for (std::size_t i = 0; i < size; ++i) {
        product[0] += static_cast<double>(a[i]) * b[i];
        product[1] += static_cast<double>(a[i]) * a[i];
        product[2] += static_cast<double>(b[i]) * b[i];
      }
    }
    collective.all_reduce(products, ReduceOp::sum);
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      auto const* const product = &products[3 * pair];
      auto const share = [&](double square) { return square == 0 ? 1 : 1 - product[0] / (2 * square); };
      auto const of_a = share(product[1]), of_b = share(product[2]);
      auto const &a = slices[2 * pair], &b = slices[2 * pair + 1];
      auto& combined = slices[pair];
      for (std::size_t i = 0; i < size; ++i) combined[i] = static_cast<T>(of_a * a[i] + of_b * b[i]);
    }
    if (slices.size() % 2 == 1) slices[pairs] = std::move(slices.back());
    slices.resize((slices.size() + 1) / 2);
  }
  std::vector<std::size_t> counts;
  for (std::size_t left = values.size(); counts.size() < world; left -= counts.back()) {
    counts.push_back(std::min(left, size));
  }
  collective.all_gatherv(std::span{slices[0]}.first(counts[collective.rank().value]), values, counts);
}

}  // namespace raytrain
