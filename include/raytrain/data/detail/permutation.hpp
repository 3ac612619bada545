// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <raytrain/data/shuffle_key.hpp>

namespace raytrain::detail {

/// Source: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
class SplitMix64 {
 public:
  constexpr explicit SplitMix64(std::uint64_t state) noexcept : state_{state} {}

  constexpr auto operator()() noexcept -> std::uint64_t {
    state_ += 0x9e3779b97f4a7c15;
    auto mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }

 private:
  std::uint64_t state_;
};

/// Source: D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 47(4), 2021.
class Xoshiro256PlusPlus {
 public:
  constexpr explicit Xoshiro256PlusPlus(std::array<std::uint64_t, 4> state) noexcept : state_{state} {}

  /// Filled by SplitMix64, as the authors advise; the seed is mixed first, so that (1, 0) and (0, 1) are unrelated.
  constexpr explicit Xoshiro256PlusPlus(ShuffleKey key) noexcept {
    SplitMix64 fill{SplitMix64{key.seed}() + key.epoch};
    for (auto& word : state_) word = fill();
  }

  constexpr auto operator()() noexcept -> std::uint64_t {
    auto const result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    auto const shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Each of 0 ... `bound` - 1 equally often; `bound` is not 0.
  ///
  /// Source: D. Lemire, "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019.
  constexpr auto below(std::uint64_t bound) noexcept -> std::uint64_t {
    auto product = Wide{(*this)()} * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      auto const threshold = (0 - bound) % bound;
      while (static_cast<std::uint64_t>(product) < threshold) product = Wide{(*this)()} * bound;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

 private:
  __extension__ using Wide = unsigned __int128;

  std::array<std::uint64_t, 4> state_{};
};

/// 0 ... `rows` - 1, each once. The same bits with every compiler and standard library; stored positions rely on it.
///
/// Source: R. Durstenfeld, "Algorithm 235: random permutation", Communications of the ACM 7(7), 1964.
[[nodiscard]] auto permutation(ShuffleKey key, std::size_t rows) -> std::vector<std::uint64_t>;

/// Lets the workers of one process share random orders of rows. Holds none itself: an order ends with its last user.
///
/// Threads: every function from any thread; who asks for an order while it is computed waits for it.
class PermutationCache {
 public:
  /// Rows that lie one behind the other.
  struct Block {
    std::uint64_t first{};
    std::size_t size{};
    friend constexpr auto operator<=>(Block const&, Block const&) = default;
  };

  /// The block's rows in the order of `permutation(key, block.size)`.
  [[nodiscard]] auto get(ShuffleKey key, Block block) const -> std::shared_ptr<std::vector<std::uint64_t> const>;

  /// Those from 0 on.
  [[nodiscard]] auto get(ShuffleKey key, std::size_t rows) const -> std::shared_ptr<std::vector<std::uint64_t> const> {
    return get(key, Block{0, rows});
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::pair<ShuffleKey, Block>, std::weak_ptr<std::vector<std::uint64_t> const>> orders_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/permutation-inl.hpp>
#endif
