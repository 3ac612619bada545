// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/call_errors.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// What a rank has called so far: how many operations, a digest of all of them, and the last ones.
class CallHistory {
 public:
  static constexpr std::uint64_t kept = 32;

  void add(Call const& call) noexcept {
    last_[operations_ % kept] = call;
    ++operations_;
    digest_ = mix(digest_, digest_of(call));
  }

  [[nodiscard]] auto operations() const noexcept -> std::uint64_t { return operations_; }

  /// Another one for another sequence of calls, as good as always.
  [[nodiscard]] auto digest() const noexcept -> std::uint64_t { return digest_; }

  /// What the ranks are told, if these two have called something else for their n-th time. Of calls that one of them
  /// does not keep any more nothing is known.
  [[nodiscard]] static auto mismatch(Rank rank, CallHistory const& mine, Rank other_rank, CallHistory const& other)
      -> std::optional<Error> {
    auto const end = std::min(mine.operations_, other.operations_);
    auto const most = std::max(mine.operations_, other.operations_);
    for (auto number = most > kept ? most - kept : 0; number < end; ++number) {
      auto const& call = mine.last_[number % kept];
      auto const& other_call = other.last_[number % kept];
      if (call != other_call) return mismatch_error({call}, other_rank, {other_call}, rank);
    }
    return std::nullopt;
  }

 private:
  std::uint64_t operations_ = 0;
  std::uint64_t digest_ = 0;
  std::array<Call, kept> last_{};
};

}  // namespace raytrain::detail
