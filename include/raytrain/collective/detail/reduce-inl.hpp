// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <raytrain/collective/detail/combine.hpp>
#include <raytrain/collective/detail/reduce.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/core/run_vectorized.hpp>

namespace raytrain::detail {

#if defined(__x86_64__)
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
#endif

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

/// The same for each of an array, in its place.
template <ReduceOp op>
struct ConcludeEach {
  template <class T>
  [[gnu::always_inline]] static void run(T* values, std::size_t count, std::uint32_t ranks) noexcept {
    constexpr std::size_t stride = 64;
    for (; count >= stride; count -= stride, values += stride) {
      for (std::size_t i = 0; i < stride; ++i) values[i] = conclude<op>(values[i], ranks);
    }
    for (; count > 0; --count, ++values) *values = conclude<op>(*values, ranks);
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

/// Block by block, since what is combined stays in the processor's cache. All sources of a block are read before a
/// target is written to.
template <ReduceOp op, Element T>
void reduce_blocks(Sources const& sources, std::size_t size_bytes, Targets const& targets) noexcept {
  using C = Combined<T>;
  constexpr std::size_t block_size = 4096 / sizeof(C);
  alignas(cache_line_bytes) C block[block_size];
  alignas(cache_line_bytes) C next[block_size];
  alignas(cache_line_bytes) T rounded[block_size];
  auto const count = size_bytes / sizeof(T);
  for (std::size_t begin = 0; begin < count; begin += block_size) {
    auto const size = std::min(block_size, count - begin);
    for (std::uint32_t rank = 0; rank < sources.ranks; ++rank) {
      T const* const values = reinterpret_cast<T const*>(sources.array(rank)) + begin;
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
      run_vectorized<ForEach<Conclude<op>>>(result, static_cast<C*>(next), size, sources.ranks);
      result = next;
    }
    void const* written = result;
    if constexpr (!combines_in_itself<T>) {
      convert(result, rounded, size);
      written = rounded;
    }
    for (std::uint32_t i = 0; i < targets.count; ++i)
      std::memcpy(targets.array(i) + begin * sizeof(T), written, size * sizeof(T));
  }
}

template <ReduceOp op, Element T>
void reduce_arrays(Sources const& sources, std::size_t size_bytes, Targets const& targets) noexcept {
  if constexpr (combines_in_itself<T>) {
    if (sources.ranks == 2 && targets.count <= 2) {
      auto const* const first = reinterpret_cast<T const*>(sources.array(0));
      auto const* const second = reinterpret_cast<T const*>(sources.array(1));
      return run_vectorized<ReduceTwo<op, T>>(
          first, second, sources.me == 0 ? second : first, reinterpret_cast<T*>(targets.array(0)),
          targets.count == 2 ? reinterpret_cast<T*>(targets.array(1)) : nullptr, size_bytes / sizeof(T));
    }
  }
  reduce_blocks<op, T>(sources, size_bytes, targets);
}

template <ReduceOp op, Element T>
void conclude_array(std::span<std::byte> values, std::uint32_t ranks) noexcept {
  run_vectorized<ConcludeEach<op>>(reinterpret_cast<T*>(values.data()), values.size() / sizeof(T), ranks);
}

template <Element T>
auto Reducers::of() noexcept -> Reducers const& {
  using enum ReduceOp;
  static constexpr Reducers reducers{{reduce_arrays<sum, T>, reduce_arrays<average, T>, reduce_arrays<min, T>,
                                      reduce_arrays<max, T>, reduce_arrays<product, T>},
                                     conclude_array<average, Combined<T>>};
  static_assert(static_cast<int>(sum) == 0 && static_cast<int>(average) == 1 && static_cast<int>(min) == 2 &&
                static_cast<int>(max) == 3 && static_cast<int>(product) == 4);
  return reducers;
}

}  // namespace raytrain::detail
