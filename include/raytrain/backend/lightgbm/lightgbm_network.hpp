// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include <raytrain/backend/lightgbm/detail/lightgbm_library.hpp>
#include <raytrain/backend/lightgbm/detail/lightgbm_log.hpp>
#include <raytrain/backend/lightgbm/lightgbm_call.hpp>
#include <raytrain/collective/worker_collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

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
  explicit LightGBMNetwork(WorkerCollective& collective) : collective_{collective} {
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
  using Byte = std::uint8_t;

  /// The functions that LightGBM calls are told nothing but their arguments.
  static auto current() noexcept -> LightGBMNetwork*& {
    thread_local LightGBMNetwork* network = nullptr;
    return network;
  }

  /// An exception ends LightGBM's call: it unwinds LightGBM, which turns it into an error code, behind which
  /// `lightgbm_call` throws it again. LightGBM exchanges nothing within its parallel regions, from which none may fly.
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
      current()->all_gather(bytes(input, input_bytes), {lengths, lengths + blocks}, bytes(output, 0).data());
    });
  }

  static void on_reduce_scatter(char* input, std::int32_t, int type_bytes, std::int32_t const* starts,
                                std::int32_t const* lengths, int blocks, char* output, std::int32_t,
                                detail::lightgbm::Reducer const& reducer) {
    keep_what_is_thrown([&] {
      current()->reduce_scatter(bytes(input, 0).data(), type_bytes, {starts, starts + blocks},
                                {lengths, lengths + blocks}, output, reducer);
    });
  }

  static auto bytes(char* data, std::int32_t size) noexcept -> std::span<Byte> {
    return {reinterpret_cast<Byte*>(data), static_cast<std::size_t>(size)};
  }

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

  /// Each rank gets all ranks' values of its own block and reduces them, in rank order.
  void reduce_scatter(Byte* input, int type_bytes, std::span<std::int32_t const> starts,
                      std::span<std::int32_t const> lengths, char* output, detail::lightgbm::Reducer reducer) {
    auto const own = collective_.rank().value;
    auto const size = static_cast<std::size_t>(lengths[own]);
    scratch_.resize(size * lengths.size());
    for (std::uint32_t rank = 0; rank < lengths.size(); ++rank) {
      if (lengths[rank] == 0) continue;
      std::span<Byte const> const block{input + starts[rank], static_cast<std::size_t>(lengths[rank])};
      collective_.gather(block, std::span<Byte>{scratch_}.first(rank == own ? scratch_.size() : 0), Rank{rank});
    }
    if (size == 0) return;
    auto const* const blocks = reinterpret_cast<char const*>(scratch_.data());
    std::copy_n(blocks, size, output);
    for (std::size_t rank = 1; rank < lengths.size(); ++rank) {
      reducer(blocks + rank * size, output, type_bytes, lengths[own]);
    }
  }

  WorkerCollective& collective_;
  std::vector<Byte> scratch_;
};

}  // namespace raytrain
