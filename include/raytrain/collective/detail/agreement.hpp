// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/call_errors.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

/// For a model whose ranks show each other their calls: whether these agree, what it says when they do not, and why the
/// ranks cannot work together any more.
///
/// Threads: the worker's.
class Agreement {
 public:
  /// The first rank that calls something else than rank 0. `call_of(number)`: what the rank of that number calls.
  template <class CallOf>
  [[nodiscard]] static auto odd_one(WorldSize ranks, CallOf const& call_of) -> std::optional<Rank> {
    auto const& first = call_of(0);
    for (std::uint32_t other = 1; other < ranks.value; ++other) {
      if (call_of(other) != first) [[unlikely]]
        return Rank{other};
    }
    return std::nullopt;
  }

  /// What all ranks are told then. `counts_of(rank)`: what that rank calls all_gatherv with; all ranks call it, or
  /// none.
  template <class CountsOf>
  [[nodiscard]] static auto mismatch(Call const& first, Rank odd, Call const& second, CountsOf const& counts_of)
      -> Error {
    std::array<std::vector<std::size_t>, 2> counts;
    if (first.operation == Operation::all_gatherv && second.operation == Operation::all_gatherv)
      counts = {counts_of(Rank{0}), counts_of(odd)};
    return mismatch_error({first, counts[0]}, odd, {second, counts[1]});
  }

  /// From now on `check_usable` throws this. The first reason counts.
  void break_off(Errc code, std::string why);

  /// For what all ranks come to know together.
  [[noreturn]] void end_by(Error const& error);

  [[nodiscard]] auto is_usable() const noexcept -> bool { return since_.empty(); }

  /// Errors: after `break_off` its own.
  void check_usable(Call const& call, Rank rank) const {
    if (!is_usable()) throw unusable_error(code_, since_, rank, call);
  }

 private:
  Errc code_{};
  std::string since_;  ///< Why the ranks cannot work together any more; empty as long as they can.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/detail/agreement-inl.hpp>
#endif
