// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>

#include <raytrain/collective/detail/task.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// Tells memory of a GPU from CPU memory, which no address shows. It asks CUDA's driver, once this program has
/// loaded it; before that there is none of that memory.
///
/// Cost: before that, 30 ns for an array above `small_bytes`. Of smaller ones only every 64th looks for the driver,
/// so that some may pass unseen after CUDA has started.
class DeviceMemoryQuery {
 public:
  static constexpr std::size_t small_bytes = 2048;
  static constexpr std::uint32_t small_arrays_per_look = 64;

  [[nodiscard]] auto is_on_device(std::span<std::byte const> array) noexcept -> bool;

 private:
  // cuPointerGetAttribute, and of its CUpointer_attribute and CUmemorytype those that matter: CUDA Driver API.
  using AttributeOf = int (*)(void* result, int attribute, std::uintptr_t pointer);
  static constexpr int memory_type = 2;
  static constexpr int managed = 8;
  static constexpr unsigned device = 2;

  void look_for_driver() noexcept;

  std::uint32_t small_arrays_ = 0;
  unsigned long long libraries_ = 0;  // that had ever been loaded when the driver was last looked for
  AttributeOf attribute_of_ = nullptr;
};

/// What one rank can see to be wrong with its own arguments of a call, which must outlive this: `invalid_call`.
class ArgumentChecks {
 public:
  constexpr ArgumentChecks(Rank rank, WorldSize size, Call const& call) noexcept
      : rank_{rank}, size_{size}, call_{call} {}

  void check_root(Rank root) const;

  template <Element T>
  void check_array(std::span<T const> array, char const* name) const {
    if (array.data() != nullptr || array.empty()) return;
    throw Error{Errc::invalid_call, attempted(),
                std::string{name} + " must point to " + std::to_string(array.size()) + " elements (got null)"};
  }

  [[noreturn]] void refuse_device_memory(char const* name) const;

  template <Element T>
  void check_parts(std::span<T const> mine, std::span<T const> all) const {
    check_array(mine, "mine");
    check_array(all, "all");
    if (all.size() != mine.size() * size_.value) {
      throw Error{Errc::invalid_call, attempted(),
                  "all must have " + std::to_string(size_.value) + " x " + std::to_string(mine.size()) +
                      " elements (got " + std::to_string(all.size()) + ")",
                  "give it room for the part of every rank"};
    }
    check_overlap(mine, all, rank_.value * mine.size());
  }

  template <Element T>
  void check_counts(std::span<T const> mine, std::span<T const> all, std::span<std::size_t const> counts) const {
    check_array(counts, "counts");
    check_array(mine, "mine");
    check_array(all, "all");
    auto const ranks = std::size_t{size_.value};
    if (counts.size() != ranks) {
      throw Error{Errc::invalid_call, attempted(),
                  "counts must have " + std::to_string(ranks) + " elements, one for each rank (got " +
                      std::to_string(counts.size()) + ")"};
    }
    if (rank_.value >= ranks) {
      throw Error{Errc::invalid_call, attempted(),
                  "Collective::rank() must be below size() (got " + std::to_string(rank_.value) + " and " +
                      std::to_string(ranks) + ")"};
    }
    auto const own = counts[rank_.value];
    if (mine.size() != own) {
      throw Error{Errc::invalid_call, attempted(),
                  "mine must have counts[" + std::to_string(rank_.value) + "] = " + std::to_string(own) +
                      " elements (got " + std::to_string(mine.size()) + ")"};
    }
    // A sum beyond all numbers stays the largest of them, which no array has as many elements as.
    auto const add = [](std::size_t sofar, std::size_t count) {
      return count > ~std::size_t{0} - sofar ? ~std::size_t{0} : sofar + count;
    };
    auto const sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0}, add);
    if (all.size() != sum) {
      throw Error{Errc::invalid_call, attempted(),
                  "all must have as many elements as the counts add up to, " + std::to_string(sum) + " (got " +
                      std::to_string(all.size()) + ")"};
    }
    check_overlap(mine, all, std::accumulate(counts.begin(), counts.begin() + rank_.value, std::size_t{0}));
  }

 private:
  [[nodiscard]] auto attempted() const -> std::string;

  /// `begin`: where `mine` is in `all` if it lies there.
  template <Element T>
  void check_overlap(std::span<T const> mine, std::span<T const> all, std::size_t begin) const {
    std::less<> const before;
    bool const apart =
        mine.empty() || !before(mine.data(), all.data() + all.size()) || !before(all.data(), mine.data() + mine.size());
    if (!apart && mine.data() != all.data() + begin) {
      throw Error{Errc::invalid_call, attempted(),
                  "mine must lie outside of all, or be its part number " + std::to_string(rank_.value) +
                      " (got another overlap)"};
    }
  }

  Rank rank_;
  WorldSize size_;
  Call const& call_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/argument_checks-inl.hpp>
#endif
