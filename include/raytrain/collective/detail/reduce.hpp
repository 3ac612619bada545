// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <raytrain/collective/detail/combine.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/bfloat16.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/float16.hpp>

namespace raytrain::detail {

inline constexpr std::size_t cache_line_bytes = 64;

/// Calls `work` with the operation as a compile-time constant.
template <class Work>
void with_op(ReduceOp op, Work const& work) {
  switch (op) {
    case ReduceOp::sum: return work(std::integral_constant<ReduceOp, ReduceOp::sum>{});
    case ReduceOp::average: return work(std::integral_constant<ReduceOp, ReduceOp::average>{});
    case ReduceOp::min: return work(std::integral_constant<ReduceOp, ReduceOp::min>{});
    case ReduceOp::max: return work(std::integral_constant<ReduceOp, ReduceOp::max>{});
    case ReduceOp::product: return work(std::integral_constant<ReduceOp, ReduceOp::product>{});
  }
}

#if defined(__x86_64__)
[[nodiscard]] inline auto has_avx2() noexcept -> bool {
  static bool const has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

typedef short EightShorts __attribute__((vector_size(16)));
typedef float EightFloats __attribute__((vector_size(32)));

// Every processor with AVX2 has F16C, which does in one step what takes some twenty otherwise. The bits are the same.

[[gnu::target("avx2,f16c")]] inline void widen_with_f16c(Float16 const* from, float* to, std::size_t count) noexcept {
  std::size_t begin = 0;
  for (; begin + 8 <= count; begin += 8) {
    EightShorts narrow;
    std::memcpy(&narrow, from + begin, sizeof narrow);
    EightFloats const wide = __builtin_ia32_vcvtph2ps256(narrow);
    std::memcpy(to + begin, &wide, sizeof wide);
  }
  for (; begin < count; ++begin) to[begin] = static_cast<float>(from[begin]);
}

[[gnu::target("avx2,f16c")]] inline void narrow_with_f16c(float const* from, Float16* to, std::size_t count) noexcept {
  std::size_t begin = 0;
  for (; begin + 8 <= count; begin += 8) {
    EightFloats wide;
    std::memcpy(&wide, from + begin, sizeof wide);
    EightShorts const narrow = __builtin_ia32_vcvtps2ph256(wide, 0);  // to the nearest, of two the even one
    std::memcpy(static_cast<void*>(to + begin), &narrow, sizeof narrow);
  }
  for (; begin < count; ++begin) to[begin] = Float16{from[begin]};
}

template <class Pass, class... Arguments>
[[gnu::target("avx2,prfchw")]] void run_with_avx2(Arguments... arguments) noexcept {
  Pass::run(arguments...);
}
#endif

/// Runs `Pass::run(arguments...)`, compiled for the widest vectors that pay on this processor. With AVX-512 sums of two
/// arrays were no faster than with AVX2.
template <class Pass, class... Arguments>
void run_vectorized(Arguments... arguments) noexcept {
#if defined(__x86_64__)
  if (has_avx2()) return run_with_avx2<Pass>(arguments...);
#endif
  Pass::run(arguments...);
}

/// So far ahead lines are asked for that another core has changed, or that are to be written: with a line then comes
/// the right to change it. Of larger arrays, which come from memory, the processor fetches enough by itself.
inline constexpr std::size_t prefetch_distance_bytes = 1536;
[[nodiscard, gnu::always_inline]] constexpr auto is_prefetched(std::size_t bytes) noexcept -> bool {
  return bytes <= std::size_t{2} << 20U;
}

/// Half a cache line: a register of AVX2, two of what every x86-64 processor has. A type of its own for each element,
/// since g++ turned no loop over an array into as good instructions.
template <class T>
struct Vector {
  static constexpr std::size_t size = 32 / sizeof(T);
  typedef T Values __attribute__((vector_size(32)));

  template <ReduceOp op>
  [[gnu::always_inline]] static void reduce_two(T const* first, T const* second, Values& a) noexcept {
    Values b;
    std::memcpy(&a, first, sizeof a);
    std::memcpy(&b, second, sizeof b);
    if constexpr (op == ReduceOp::min || op == ReduceOp::max) {
      auto const better = op == ReduceOp::min ? b < a : a < b;
      a = (better | (b != b)) != 0 ? b : a;
    } else if constexpr (std::integral<T>) {
      // As `combine` does it: no overflow is undefined.
      using Unsigned = typename Vector<std::make_unsigned_t<T>>::Values;
      auto const c = reinterpret_cast<Unsigned>(a);
      auto const d = reinterpret_cast<Unsigned>(b);
      a = reinterpret_cast<Values>(op == ReduceOp::product ? c * d : c + d);
    } else {
      a = op == ReduceOp::product ? a * b : a + b;
    }
    if constexpr (op == ReduceOp::average) a = a / T{2};
  }
};

/// Reduces two arrays into one, or into two.
template <ReduceOp op, Element T>
requires combines_in_itself<T>
struct ReduceTwo {
  static constexpr std::size_t line = cache_line_bytes / sizeof(T);

  /// `to` and `also`, which may be null, may be `first` or `second` themselves, and otherwise lie outside. `remote`:
  /// that of the two which another core has written.
  [[gnu::always_inline]] static void run(T const* first, T const* second, T const* remote, T* to, T* also,
                                         std::size_t count) noexcept {
    bool const prefetches = is_prefetched(count * sizeof(T));
    bool const writes_remote = remote == to || remote == also;
    std::size_t begin = 0;
    for (; begin + line <= count; begin += line) {
      if (prefetches) {
        constexpr auto ahead = prefetch_distance_bytes / sizeof(T);
        if (writes_remote) {
          __builtin_prefetch(remote + begin + ahead, 1);
        } else {
          __builtin_prefetch(remote + begin + ahead);
          if (also != nullptr) __builtin_prefetch(also + begin + ahead, 1);
        }
      }
      reduce_line(first + begin, second + begin, to + begin, also == nullptr ? nullptr : also + begin);
    }
    for (; begin < count; ++begin) {
      auto const value = conclude<op>(combine<op>(first[begin], second[begin]), 2);
      to[begin] = value;
      if (also != nullptr) also[begin] = value;
    }
  }

 private:
  [[gnu::always_inline]] static void reduce_line(T const* first, T const* second, T* to, T* also) noexcept {
    using V = Vector<T>;
    typename V::Values low;
    typename V::Values high;
    V::template reduce_two<op>(first, second, low);
    V::template reduce_two<op>(first + V::size, second + V::size, high);
    for (auto* const result : {to, also}) {
      if (result == nullptr) continue;
      std::memcpy(result, &low, sizeof low);
      std::memcpy(result + V::size, &high, sizeof high);
    }
  }
};

/// Applies a step to each pair of elements of two arrays, which lie apart.
template <class Step>
struct ForEach {
  template <class From, class To, class... Arguments>
  [[gnu::always_inline]] static void run(From const* __restrict from, To* __restrict to, std::size_t count,
                                         Arguments... arguments) noexcept {
    constexpr std::size_t stride = 64;
    for (; count >= stride; count -= stride, from += stride, to += stride) {
      for (std::size_t i = 0; i < stride; ++i) Step::apply(to[i], from[i], arguments...);
    }
    for (; count > 0; --count) Step::apply(*to++, *from++, arguments...);
  }
};

struct Convert {
  template <class To, class From>
  [[gnu::always_inline]] static void apply(To& to, From from) noexcept {
    to = static_cast<To>(from);
  }
};

template <ReduceOp op>
struct Combine {
  template <class To, class From>
  [[gnu::always_inline]] static void apply(To& sofar, From next) noexcept {
    sofar = combine<op>(sofar, static_cast<To>(next));
  }
};

template <ReduceOp op>
struct Conclude {
  template <class T>
  [[gnu::always_inline]] static void apply(T& result, T value, std::uint32_t ranks) noexcept {
    result = conclude<op>(value, ranks);
  }
};

/// Exact in one direction, to the nearest in the other.
template <class From, class To>
void convert(From const* from, To* to, std::size_t count) noexcept {
  run_vectorized<ForEach<Convert>>(from, to, count);
}

#if defined(__x86_64__)
inline void convert(Float16 const* from, float* to, std::size_t count) noexcept {
  if (!has_avx2()) return run_vectorized<ForEach<Convert>>(from, to, count);
  widen_with_f16c(from, to, count);
}
inline void convert(float const* from, Float16* to, std::size_t count) noexcept {
  if (!has_avx2()) return run_vectorized<ForEach<Convert>>(from, to, count);
  narrow_with_f16c(from, to, count);
}
#endif

/// Reduces the arrays `source(0)`, `source(1)` ... in this order, block by block, and hands every block to
/// `sink(position, block, block_bytes)`; the position counts elements. All sources of a block are read before its sink
/// is called, so that a sink may write to them.
template <ReduceOp op, Element T, class Source, class Sink>
void reduce_blocks(std::uint32_t ranks, std::size_t count, Source const& source, Sink const& sink) {
  using C = Combined<T>;
  constexpr std::size_t block_size = 4096 / sizeof(C);
  alignas(cache_line_bytes) C block[block_size];
  alignas(cache_line_bytes) C next[block_size];
  alignas(cache_line_bytes) T rounded[block_size];
  for (std::size_t begin = 0; begin < count; begin += block_size) {
    auto const size = std::min(block_size, count - begin);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      T const* const values = source(rank) + begin;
      if constexpr (!combines_in_itself<T>) {
        convert(values, rank == 0 ? block : next, size);
        if (rank > 0) run_vectorized<ForEach<Combine<op>>>(static_cast<C const*>(next), static_cast<C*>(block), size);
      } else if (rank == 0) {
        std::memcpy(block, values, size * sizeof(T));
      } else {
        run_vectorized<ForEach<Combine<op>>>(values, static_cast<C*>(block), size);
      }
    }
    C const* result = block;
    if constexpr (op == ReduceOp::average) {
      run_vectorized<ForEach<Conclude<op>>>(result, static_cast<C*>(next), size, ranks);
      result = next;
    }
    if constexpr (combines_in_itself<T>) {
      sink(begin, result, size * sizeof(T));
    } else {
      convert(result, rounded, size);
      sink(begin, static_cast<T const*>(rounded), size * sizeof(T));
    }
  }
}

/// Reduces the arrays `source(0)`, `source(1)` ... of all ranks into each of `targets`, one or two, on rank `me`.
template <ReduceOp op, Element T, class Source, std::size_t n>
void reduce_to(std::uint32_t ranks, std::uint32_t me, std::size_t count, Source const& source,
               std::array<T*, n> const& targets) {
  static_assert(n == 1 || n == 2);
  if constexpr (combines_in_itself<T>) {
    if (ranks == 2) {
      T const* const first = source(0);
      T const* const second = source(1);
      T* const also = n == 2 ? targets[n - 1] : nullptr;
      return run_vectorized<ReduceTwo<op, T>>(first, second, me == 0 ? second : first, targets[0], also, count);
    }
  }
  reduce_blocks<op, T>(ranks, count, source, [&](std::size_t at, T const* block, std::size_t bytes) {
    for (auto* const target : targets) std::memcpy(target + at, block, bytes);
  });
}

/// All ranks' arrays `target(0)`, `target(1)` ..., which do not overlap, become their reduction, on rank `me`.
template <ReduceOp op, Element T, class Target>
void reduce_everywhere(std::uint32_t ranks, std::uint32_t me, std::size_t count, Target const& target) {
  if constexpr (combines_in_itself<T>) {
    if (ranks == 2) {
      T const* const first = target(0);
      T const* const second = target(1);
      return run_vectorized<ReduceTwo<op, T>>(first, second, me == 0 ? second : first, target(0), target(1), count);
    }
  }
  reduce_blocks<op, T>(ranks, count, target, [&](std::size_t at, T const* block, std::size_t bytes) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) std::memcpy(target(rank) + at, block, bytes);
  });
}

}  // namespace raytrain::detail
