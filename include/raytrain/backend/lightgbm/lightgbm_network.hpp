// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include <raytrain/backend/lightgbm/detail/lightgbm_library.hpp>
#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/error.hpp>

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

  /// What LightGBM asks of a reduction: `reducer` combines elements of `type_bytes` bytes.
  struct Reduction {
    Byte const* input;
    Byte* output;
    int type_bytes;
    lightgbm::Reducer reducer;
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
  void reduce_scatter(Blocks blocks, Reduction const& what) {
    if (std::ranges::max(blocks.lengths) == 0) return;
    if (adds<double>(what)) return add<double>(what.input, blocks, what.output);
    if (adds<std::uint64_t>(what)) return add<std::uint64_t>(what.input, blocks, what.output);
    if (adds<std::uint32_t>(what)) return add<std::uint32_t>(what.input, blocks, what.output);
    reduce_otherwise(blocks, what);
  }

 private:
  /// LightGBM does not say what a reducer does, so it is tried. Histograms are sums of doubles, or of integers into
  /// which gradients have been packed.
  template <class T>
  static auto adds(Reduction const& what) -> bool {
    if (what.type_bytes != static_cast<int>(sizeof(T))) return false;
    std::array<T, 2> const from{T{3}, static_cast<T>(-2)};
    std::array<T, 2> to{T{40}, T{7}};
    std::array<T, 2> const sums{from[0] + to[0], from[1] + to[1]};
    what.reducer(reinterpret_cast<char const*>(from.data()), reinterpret_cast<char*>(to.data()), sizeof(T), sizeof to);
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
  void reduce_otherwise(Blocks blocks, Reduction const& what) {
    auto const own = collective_.rank().value;
    std::size_t size = 0;
    for (std::size_t rank = 0; rank < blocks.lengths.size(); ++rank) {
      size = std::max(size, static_cast<std::size_t>(blocks.starts[rank] + blocks.lengths[rank]));
    }
    scratch_.resize(size * blocks.lengths.size());
    collective_.all_gather(std::span{what.input, size}, std::span{scratch_});
    auto const* const first = scratch_.data() + blocks.starts[own];
    std::copy_n(first, blocks.lengths[own], what.output);
    for (std::size_t rank = 1; rank < blocks.lengths.size() && blocks.lengths[own] > 0; ++rank) {
      what.reducer(reinterpret_cast<char const*>(first + rank * size), reinterpret_cast<char*>(what.output),
                   what.type_bytes, blocks.lengths[own]);
    }
  }

  Collective& collective_;
  Buffer<Byte> parts_;
  std::vector<Byte> scratch_;
};

}  // namespace raytrain::detail

namespace raytrain {

/// Makes a thread one of the workers that train a model of LightGBM together: what LightGBM exchanges goes through the
/// worker's collective, and LightGBM opens no connection of its own.
///
/// LightGBM keeps its network for each thread: datasets and models that are to be distributed are made and used on this
/// thread while this exists, with the parameter `num_machines`. A thread has one at a time.
///
/// Threads: one, from construction to destruction.
class LightGBMNetwork {
 public:
  /// `collective` outlives it.
  ///
  /// Errors: `invalid_call` when the thread has one already.
  explicit LightGBMNetwork(Collective& collective) : exchange_{collective} {
    if (current() != nullptr) {
      throw Error{Errc::invalid_call, "LightGBMNetwork", "this thread has a network already", "keep one at a time"};
    }
    detail::LightGBMLog::keep();
    // The types are LightGBM's, which takes both as pointers to void.
    detail::lightgbm::ReduceScatter const reduce = &LightGBMNetwork::on_reduce_scatter;
    detail::lightgbm::AllGather const gather = &LightGBMNetwork::on_all_gather;
    detail::lightgbm_call(detail::lightgbm::LGBM_NetworkInitWithFunctions(
                              static_cast<int>(collective.size().value), static_cast<int>(collective.rank().value),
                              reinterpret_cast<void*>(reduce), reinterpret_cast<void*>(gather)),
                          "LGBM_NetworkInitWithFunctions");
    current() = this;
  }
  LightGBMNetwork(LightGBMNetwork const&) = delete;
  auto operator=(LightGBMNetwork const&) -> LightGBMNetwork& = delete;
  ~LightGBMNetwork() {
    detail::lightgbm::LGBM_NetworkFree();
    current() = nullptr;
  }

 private:
  using Byte = detail::LightGBMExchange::Byte;

  /// This thread's network: LightGBM passes no context to the functions that it calls.
  static auto current() noexcept -> LightGBMNetwork*& {
    thread_local LightGBMNetwork* network = nullptr;
    return network;
  }

  /// Keeps an exception for `lightgbm_call`, since LightGBM turns it into an error code. It may pass through LightGBM,
  /// which exchanges nothing within its parallel regions.
  template <class Work>
  static void keep_what_is_thrown(Work const& work) {
    try {
      work();
    } catch (...) {
      detail::lightgbm_thrown() = std::current_exception();
      throw;
    }
  }

  static void on_all_gather(char* input, std::int32_t input_bytes, std::int32_t const*, std::int32_t const* lengths,
                            int blocks, char* output, std::int32_t) {
    keep_what_is_thrown([&] {
      auto const mine = std::span{bytes(input), static_cast<std::size_t>(input_bytes)};
      current()->exchange_.all_gather(mine, {lengths, lengths + blocks}, bytes(output));
    });
  }

  static void on_reduce_scatter(char* input, std::int32_t, int type_bytes, std::int32_t const* starts,
                                std::int32_t const* lengths, int blocks, char* output, std::int32_t,
                                detail::lightgbm::Reducer const& reducer) {
    keep_what_is_thrown([&] {
      current()->exchange_.reduce_scatter(
          {{starts, starts + blocks}, {lengths, lengths + blocks}},
          {.input = bytes(input), .output = bytes(output), .type_bytes = type_bytes, .reducer = reducer});
    });
  }

  static auto bytes(char* data) noexcept -> Byte* { return reinterpret_cast<Byte*>(data); }

  detail::LightGBMExchange exchange_;
};

}  // namespace raytrain
