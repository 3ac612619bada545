// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>

namespace raytrain::detail {

inline constexpr std::size_t cache_line_bytes = 64;

/// The array of each rank, by a function that must outlive this.
template <class Byte>
class ArrayOfRank {
 public:
  template <class Function>
  requires(!std::same_as<Function, ArrayOfRank>)
      // NOLINTNEXTLINE(google-explicit-constructor): it is the same function
      ArrayOfRank(Function const& function)
  noexcept
      : function_{&function},
        call_{[](void const* of, std::uint32_t rank) -> Byte* { return (*static_cast<Function const*>(of))(rank); }} {}

  auto operator()(std::uint32_t rank) const -> Byte* { return call_(function_, rank); }

 private:
  void const* function_;
  Byte* (*call_)(void const*, std::uint32_t);
};

/// What rank `me` reduces: the arrays `source(0)`, `source(1)` ... of all ranks, in this order, into each of
/// `target(0)`, `target(1)` ... All have `size_bytes`. Targets may be sources, and do not overlap otherwise.
struct Sources {
  std::uint32_t ranks;
  std::uint32_t me;
  ArrayOfRank<std::byte const> array;
};
struct Targets {
  std::uint32_t count;
  ArrayOfRank<std::byte> array;
};

/// What reduces arrays of some element type, for those who know it at run time only.
struct Reducers {
  using Reduce = void (*)(Sources const&, std::size_t size_bytes, Targets const&) noexcept;

  template <Element T>
  [[nodiscard]] static auto of() noexcept -> Reducers const&;

  [[nodiscard]] auto operator[](ReduceOp op) const noexcept -> Reduce { return reduce[static_cast<std::size_t>(op)]; }

  std::array<Reduce, 5> reduce;
  void (*divide)(std::span<std::byte> sums, std::uint32_t ranks) noexcept;  ///< Makes averages of sums.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/reduce-inl.hpp>
#endif
