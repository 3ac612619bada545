// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include <raytrain/backend/lightgbm/detail/lightgbm_library.hpp>
#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>

namespace raytrain::detail {

/// What LightGBM asks its network to exchange, through a worker's collective. Lengths and starts are in bytes, by rank,
/// and the same on all ranks.
///
/// Threads: the worker's.
/// Errors:  those of the collective.
class LightGBMExchange {
 public:
  using Byte = std::uint8_t;
  struct Blocks {
    std::span<std::int32_t const> starts;
    std::span<std::int32_t const> lengths;
  };

  /// `collective` outlives it.
  explicit LightGBMExchange(Collective& collective) : collective_{collective} {}

  /// Blocks lie one behind the other. `mine` may lie anywhere in `output`.
  void all_gather(std::span<Byte const> mine, std::span<std::int32_t const> lengths, Byte* output) {
    std::vector<std::size_t> const counts(lengths.begin(), lengths.end());
    std::span<Byte> const all{output, std::accumulate(counts.begin(), counts.end(), std::size_t{0})};
    if (std::less<>{}(mine.data(), all.data() + all.size()) && std::less<>{}(all.data(), mine.data() + mine.size())) {
      scratch_.assign(mine.begin(), mine.end());
      mine = scratch_;
    }
    collective_.all_gatherv(mine, all, counts);
  }

  /// Each rank gets its own block of all ranks' inputs, reduced in the collective's order.
  void reduce_scatter(Byte const* input, int type_bytes, Blocks blocks, Byte* output, lightgbm::Reducer reducer) {
    if (std::ranges::max(blocks.lengths) == 0) return;
    if (adds<double>(reducer, type_bytes)) return add<double>(input, blocks, output);
    if (adds<std::uint64_t>(reducer, type_bytes)) return add<std::uint64_t>(input, blocks, output);
    if (adds<std::uint32_t>(reducer, type_bytes)) return add<std::uint32_t>(input, blocks, output);
    reduce_otherwise(input, type_bytes, blocks, output, reducer);
  }

 private:
  /// LightGBM does not say what a reducer does, so it is tried. Histograms are sums of doubles, or of integers into
  /// which gradients have been packed.
  template <class T>
  static auto adds(lightgbm::Reducer reducer, int type_bytes) -> bool {
    if (type_bytes != static_cast<int>(sizeof(T))) return false;
    std::array<T, 2> const from{T{3}, static_cast<T>(-2)};
    std::array<T, 2> to{T{40}, T{7}};
    std::array<T, 2> const sums{from[0] + to[0], from[1] + to[1]};
    reducer(reinterpret_cast<char const*>(from.data()), reinterpret_cast<char*>(to.data()), type_bytes, sizeof to);
    return to == sums;
  }

  /// The collective wants parts of one size, so that blocks are filled up with zeros.
  template <class T>
  void add(Byte const* input, Blocks blocks, Byte* output) {
    auto const own = collective_.rank().value;
    auto const part = static_cast<std::size_t>(std::ranges::max(blocks.lengths));
    auto const size = part * blocks.lengths.size();
    if (parts_.size() < size) parts_ = collective_.allocate<Byte>(size);
    for (std::size_t rank = 0; rank < blocks.lengths.size(); ++rank) {
      auto* const begin = parts_.data() + rank * part;
      auto* const end = std::copy_n(input + blocks.starts[rank], blocks.lengths[rank], begin);
      std::fill(end, begin + part, Byte{0});
    }
    std::span const all{reinterpret_cast<T*>(parts_.data()), size / sizeof(T)};
    auto const mine = all.subspan(own * part / sizeof(T), part / sizeof(T));
    collective_.reduce_scatter(all, mine, ReduceOp::sum);
    std::copy_n(parts_.data() + own * part, blocks.lengths[own], output);
  }

  /// Calls LightGBM's reducer on the arrays of all ranks. They are small: only histograms are large.
  void reduce_otherwise(Byte const* input, int type_bytes, Blocks blocks, Byte* output, lightgbm::Reducer reducer) {
    auto const own = collective_.rank().value;
    std::size_t size = 0;
    for (std::size_t rank = 0; rank < blocks.lengths.size(); ++rank) {
      size = std::max(size, static_cast<std::size_t>(blocks.starts[rank] + blocks.lengths[rank]));
    }
    scratch_.resize(size * blocks.lengths.size());
    collective_.all_gather(std::span{input, size}, std::span{scratch_});
    auto const* const first = scratch_.data() + blocks.starts[own];
    std::copy_n(first, blocks.lengths[own], output);
    for (std::size_t rank = 1; rank < blocks.lengths.size() && blocks.lengths[own] > 0; ++rank) {
      reducer(reinterpret_cast<char const*>(first + rank * size), reinterpret_cast<char*>(output), type_bytes,
              blocks.lengths[own]);
    }
  }

  Collective& collective_;
  Buffer<Byte> parts_;
  std::vector<Byte> scratch_;
};

}  // namespace raytrain::detail
