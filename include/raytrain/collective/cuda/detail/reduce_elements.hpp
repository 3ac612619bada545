// SPDX-License-Identifier: Apache-2.0
// What the kernels of kernels.cu do, as functions that run on a host as well: nvcc takes constexpr ones for both with
// --expt-relaxed-constexpr.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <raytrain/collective/cuda/detail/device_reduction.hpp>
#include <raytrain/collective/detail/combine.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/float16.hpp>

#ifdef __CUDA_ARCH__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace raytrain::detail::device {

template <Element T>
[[nodiscard]] constexpr auto widen(T value) noexcept -> Combined<T> {
#ifdef __CUDA_ARCH__
  // One instruction instead of a dozen.
  if constexpr (std::same_as<T, Float16>) return __half2float(__ushort_as_half(value.bits()));
#endif
  return static_cast<Combined<T>>(value);
}

template <Element T>
[[nodiscard]] constexpr auto narrow(Combined<T> value) noexcept -> T {
#ifdef __CUDA_ARCH__
  if constexpr (std::same_as<T, Float16>) return Float16::from_bits(__half_as_ushort(__float2half_rn(value)));
  if constexpr (std::same_as<T, BFloat16>) return BFloat16::from_bits(__bfloat16_as_ushort(__float2bfloat16_rn(value)));
#endif
  return static_cast<T>(value);
}

/// What a thread reads or writes at once: the widest access that a GPU has.
template <Element T>
struct alignas(16) Pack {
  static constexpr std::size_t size = 16 / sizeof(T);
  T values[size];
};

template <Element T>
struct Single {
  static constexpr std::size_t size = 1;
  T values[size];
};

[[nodiscard]] constexpr auto array_of(DeviceReduction const& reduction, std::uint32_t index) noexcept -> void* {
  if (reduction.stride_bytes == 0) return reduction.table[index];
  return static_cast<std::byte*>(reduction.table[0]) + index * reduction.stride_bytes;
}

/// Element `at`, counted in `P`s, of all arrays. All are read before any is written, so that arrays may be targets.
template <ReduceOp op, Element T, template <class> class P>
constexpr void reduce_at(DeviceReduction const& reduction, std::size_t at) noexcept {
  using Values = P<T>;
  constexpr std::uint32_t batch = 4;  // Reads that are under way together.
  auto const load = [&](std::uint32_t array) { return static_cast<Values const*>(array_of(reduction, array))[at]; };
  Combined<T> sofar[Values::size];
  auto const add = [&](Values const& next) {
    for (std::size_t i = 0; i < Values::size; ++i) sofar[i] = combine<op>(sofar[i], widen(next.values[i]));
  };
  auto const first = load(0);
  for (std::size_t i = 0; i < Values::size; ++i) sofar[i] = widen(first.values[i]);
  std::uint32_t array = 1;
  for (; array + batch <= reduction.arrays; array += batch) {
    Values next[batch];
    for (std::uint32_t i = 0; i < batch; ++i) next[i] = load(array + i);
    for (std::uint32_t i = 0; i < batch; ++i) add(next[i]);
  }
  for (; array < reduction.arrays; ++array) add(load(array));
  Values result;
  for (std::size_t i = 0; i < Values::size; ++i) {
    result.values[i] = narrow<T>(conclude<op>(sofar[i], reduction.divisor));
  }
  if (reduction.target != nullptr) {
    static_cast<Values*>(reduction.target)[at] = result;
    return;
  }
  for (array = 0; array < reduction.arrays; ++array) static_cast<Values*>(array_of(reduction, array))[at] = result;
}

/// What the thread number `thread` of so many does: elements that no other one touches.
template <ReduceOp op, Element T>
constexpr void reduce_share(DeviceReduction const& reduction, std::size_t thread, std::size_t threads) noexcept {
  auto const packs = reduction.aligned ? reduction.count / Pack<T>::size : 0;
  for (auto at = thread; at < packs; at += threads) reduce_at<op, T, Pack>(reduction, at);
  for (auto at = packs * Pack<T>::size + thread; at < reduction.count; at += threads)
    reduce_at<op, T, Single>(reduction, at);
}

/// Calls `work.template operator()<op, T>()` for the reduction's; signed integers as unsigned where the bits are equal.
template <class Work>
auto with_op_and_type(DeviceReduction const& reduction, Work const& work) {
  auto const with_type = [&]<ReduceOp op>() {
    constexpr bool same_bits = op == ReduceOp::sum || op == ReduceOp::product;
    switch (reduction.element) {
      case ElementType::float32: return work.template operator()<op, float>();
      case ElementType::float64: return work.template operator()<op, double>();
      case ElementType::float16: return work.template operator()<op, Float16>();
      case ElementType::bfloat16: return work.template operator()<op, BFloat16>();
      case ElementType::int8:
        return work.template operator()<op, std::conditional_t<same_bits, std::uint8_t, std::int8_t>>();
      case ElementType::int16:
        return work.template operator()<op, std::conditional_t<same_bits, std::uint16_t, std::int16_t>>();
      case ElementType::int32:
        return work.template operator()<op, std::conditional_t<same_bits, std::uint32_t, std::int32_t>>();
      case ElementType::int64:
        return work.template operator()<op, std::conditional_t<same_bits, std::uint64_t, std::int64_t>>();
      case ElementType::uint8: return work.template operator()<op, std::uint8_t>();
      case ElementType::uint16: return work.template operator()<op, std::uint16_t>();
      case ElementType::uint32: return work.template operator()<op, std::uint32_t>();
      case ElementType::uint64: break;
    }
    return work.template operator()<op, std::uint64_t>();
  };
  switch (reduction.op) {
    case ReduceOp::sum: return with_type.template operator()<ReduceOp::sum>();
    case ReduceOp::average: return with_type.template operator()<ReduceOp::average>();
    case ReduceOp::min: return with_type.template operator()<ReduceOp::min>();
    case ReduceOp::max: return with_type.template operator()<ReduceOp::max>();
    case ReduceOp::product: break;
  }
  return with_type.template operator()<ReduceOp::product>();
}

}  // namespace raytrain::detail::device
