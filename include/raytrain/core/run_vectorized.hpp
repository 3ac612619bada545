// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace raytrain::detail {

#if defined(__x86_64__)
[[nodiscard]] inline auto has_avx2() noexcept -> bool {
  static bool const has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

template <class Pass, class... Arguments>
[[gnu::target("avx2,prfchw")]] void run_with_avx2(Arguments... arguments) noexcept {
  Pass::run(arguments...);
}
#endif

/// Runs `Pass::run(arguments...)`, which is `gnu::always_inline`, as is what it calls in its loops, compiled for the
/// widest vectors that pay on this processor. The results have the same bits everywhere.
///
/// With AVX-512 sums of two arrays were no faster than with AVX2.
template <class Pass, class... Arguments>
void run_vectorized(Arguments... arguments) noexcept {
#if defined(__x86_64__)
  if (has_avx2()) return run_with_avx2<Pass>(arguments...);
#endif
  Pass::run(arguments...);
}

}  // namespace raytrain::detail
