// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <raytrain/collective/detail/agreement.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto describe(RankCall const& mine, RankCall const& other) -> std::string {
  auto text = to_string(mine.call);
  bool const both_gather = mine.call.operation == other.call.operation && mine.counts.empty() && other.counts.empty();
  if (both_gather && mine.call.counts_digest != other.call.counts_digest) return text + " with counts of its own";
  auto of_other_samples = mine.call.tag;
  of_other_samples.samples = other.call.tag.samples;
  if (mine.call.tag.of == CallOf::step && mine.call.tag != other.call.tag && of_other_samples == other.call.tag) {
    return text + " with learning rates of its own, or gradients for other parameters";
  }
  auto const [own, others] = std::ranges::mismatch(mine.counts, other.counts);
  if (own == mine.counts.end() || others == other.counts.end()) return text;
  return text + " of which rank " + std::to_string(own - mine.counts.begin()) + " sends " + std::to_string(*own);
}

RAYTRAIN_INLINE auto mismatch_error(RankCall const& first, RankCall const& other) -> Error {
  auto const& tag = first.call.tag;
  auto const& other_tag = other.call.tag;
  auto const one_is_of = [&](CallOf what) { return tag.of == what || other_tag.of == what; };
  auto const* const remedy =
      tag == other_tag ? "make every rank call the same operations in the same order, on arrays of one size and type"
      : one_is_of(CallOf::loader)
          ? "make every rank make the same data loaders, and call the same operations, in the same order"
      : one_is_of(CallOf::join)
          ? "make every rank call join() before each step, and run as many backwards behind it, with or without a batch"
      : tag.of == CallOf::step && other_tag.of == CallOf::step
          ? "make every rank take the same steps in the same order, with the same learning rates and as many gradients"
      : one_is_of(CallOf::layer)
          ? "make every rank run the same layers forward and backward, in the same order, in train mode on all or none"
          : "make every rank run the same backwards in the same order, on as many batches of one size, and average "
            "after as many";
  return {Errc::rank_mismatch, "collective call",
          "rank " + std::to_string(first.rank.value) + " calls " + describe(first, other) + ", but rank " +
              std::to_string(other.rank.value) + " calls " + describe(other, first),
          remedy};
}

RAYTRAIN_INLINE auto options_error(char const* group, std::string const& option) -> Error {
  return {Errc::rank_mismatch, group, "the ranks disagree about " + option, "give it the same value on every rank"};
}

RAYTRAIN_INLINE auto unusable_error(Errc code, std::string const& happened, RankCall const& call) -> Error {
  return {code, to_string(call.call) + " on rank " + std::to_string(call.rank.value),
          "the group is unusable since " + happened, "let the error end the training function"};
}

RAYTRAIN_INLINE void CallHistory::add(Call const& call) noexcept {
  last_[operations_ % kept] = call;
  ++operations_;
  digest_ = mix(digest_, digest_of(call));
}

RAYTRAIN_INLINE auto CallHistory::mismatch(RankCalls const& first, RankCalls const& other) -> std::optional<Error> {
  auto const end = std::min(first.calls.operations_, other.calls.operations_);
  auto const most = std::max(first.calls.operations_, other.calls.operations_);
  for (auto number = most > kept ? most - kept : 0; number < end; ++number) {
    auto const& call = first.calls.last_[number % kept];
    auto const& other_call = other.calls.last_[number % kept];
    if (call != other_call) return mismatch_error({first.rank, call}, {other.rank, other_call});
  }
  return std::nullopt;
}

RAYTRAIN_INLINE void Agreement::make_unusable(Errc code, std::string why) {
  if (!is_usable()) return;
  code_ = code;
  since_ = std::move(why);
}

RAYTRAIN_INLINE void Agreement::end_by(Error const& error) {
  make_unusable(error.code(), error.happened());
  throw error;
}

}  // namespace raytrain::detail
