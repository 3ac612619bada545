// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

enum class Operation : std::uint8_t {
  barrier,
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  reduce,
  gather,
  scatter,
  all_gatherv,
};

/// What must be equal on every rank of an operation. Fields that the operation has no use for keep their defaults.
struct Call {
  Operation operation = Operation::barrier;
  ElementType element{};
  ReduceOp op{};
  Rank root{};
  std::uint64_t count = 0;  ///< Elements of the array that is as long on every rank: for all_gather, what a rank sends.
  std::uint64_t counts_digest = 0;  ///< For all_gatherv: `digest_of` the counts by rank.
  friend auto operator==(Call const&, Call const&) -> bool = default;
};

[[nodiscard]] constexpr auto mix(std::uint64_t digest, std::uint64_t number) noexcept -> std::uint64_t {
  digest = (digest ^ number) * 0x9E37'79B9'7F4A'7C15U;
  return digest ^ digest >> 32U;
}

/// Another one for other counts, as good as always.
[[nodiscard]] constexpr auto digest_of(std::span<std::size_t const> counts) noexcept -> std::uint64_t {
  std::uint64_t digest = 0;
  for (auto const count : counts) digest = mix(digest, count);
  return digest;
}

/// Another one for another call, as good as always; 0 for none.
[[nodiscard]] constexpr auto digest_of(Call const& call) noexcept -> std::uint64_t {
  auto const kind = std::uint64_t{1} << 56U | static_cast<std::uint64_t>(call.operation) << 48U |
                    static_cast<std::uint64_t>(call.element) << 40U | static_cast<std::uint64_t>(call.op) << 32U |
                    call.root.value;
  return mix(mix(mix(0, kind), call.count), call.counts_digest);
}

/// "all_reduce(1000 x float32, sum)", "broadcast(10 x int32, root 1)", "barrier()".
[[nodiscard]] inline auto to_string(Call const& call) -> std::string {
  auto const array = std::to_string(call.count) + " x " + std::string{to_string(call.element)};
  auto const op = std::string{to_string(call.op)};
  auto const root = "root " + std::to_string(call.root.value);
  switch (call.operation) {
    case Operation::barrier: return "barrier()";
    case Operation::all_reduce: return "all_reduce(" + array + ", " + op + ")";
    case Operation::broadcast: return "broadcast(" + array + ", " + root + ")";
    case Operation::all_gather: return "all_gather(" + array + ")";
    case Operation::reduce_scatter: return "reduce_scatter(" + array + ", " + op + ")";
    case Operation::reduce: return "reduce(" + array + ", " + op + ", " + root + ")";
    case Operation::gather: return "gather(" + array + ", " + root + ")";
    case Operation::scatter: return "scatter(" + array + ", " + root + ")";
    case Operation::all_gatherv: return "all_gatherv(" + array + ")";
  }
  return "unknown";
}

}  // namespace raytrain::detail
