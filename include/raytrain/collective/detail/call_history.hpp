// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <raytrain/collective/detail/call.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// What a rank has called so far: how many operations, a digest of all of them, and the last ones.
class CallHistory {
 public:
  static constexpr std::uint64_t kept = 32;

  void add(Call const& call) noexcept;

  [[nodiscard]] auto operations() const noexcept -> std::uint64_t { return operations_; }

  /// Another one for another sequence of calls, as good as always.
  [[nodiscard]] auto digest() const noexcept -> std::uint64_t { return digest_; }

  /// What the ranks are told, if these two have called something else for their n-th time. Of calls that one of them
  /// does not keep any more nothing is known.
  [[nodiscard]] static auto mismatch(Rank rank, CallHistory const& mine, Rank other_rank, CallHistory const& other)
      -> std::optional<Error>;

 private:
  std::uint64_t operations_ = 0;
  std::uint64_t digest_ = 0;
  std::array<Call, kept> last_{};
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/call_history-inl.hpp>
#endif
