// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>

#include <raytrain/collective/detail/reduce.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto has_avx2() noexcept -> bool {
  static bool const has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

RAYTRAIN_INLINE void widen_with_f16c(Float16 const* from, float* to, std::size_t count) noexcept {
  std::size_t begin = 0;
  for (; begin + 8 <= count; begin += 8) {
    EightShorts narrow;
    std::memcpy(&narrow, from + begin, sizeof narrow);
    EightFloats const wide = __builtin_ia32_vcvtph2ps256(narrow);
    std::memcpy(to + begin, &wide, sizeof wide);
  }
  for (; begin < count; ++begin) to[begin] = static_cast<float>(from[begin]);
}

RAYTRAIN_INLINE void narrow_with_f16c(float const* from, Float16* to, std::size_t count) noexcept {
  std::size_t begin = 0;
  for (; begin + 8 <= count; begin += 8) {
    EightFloats wide;
    std::memcpy(&wide, from + begin, sizeof wide);
    EightShorts const narrow = __builtin_ia32_vcvtps2ph256(wide, 0);  // to the nearest, of two the even one
    std::memcpy(static_cast<void*>(to + begin), &narrow, sizeof narrow);
  }
  for (; begin < count; ++begin) to[begin] = Float16{from[begin]};
}

RAYTRAIN_INLINE void convert(Float16 const* from, float* to, std::size_t count) noexcept {
  if (!has_avx2()) return run_vectorized<ForEach<Convert>>(from, to, count);
  widen_with_f16c(from, to, count);
}

RAYTRAIN_INLINE void convert(float const* from, Float16* to, std::size_t count) noexcept {
  if (!has_avx2()) return run_vectorized<ForEach<Convert>>(from, to, count);
  narrow_with_f16c(from, to, count);
}

}  // namespace raytrain::detail
