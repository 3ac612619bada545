// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/nccl/nccl_communicator.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/reduction.hpp>

namespace raytrain {

struct NcclOptions {
  /// `automatic` leaves to NCCL what it can combine, in its own order; `rank_order` gives the bits of LocalCollective.
  Reduction reduction = Reduction::automatic;
  WaitLimits limits{};  ///< For each operation, and for starting the communicator.
};

/// What the `NcclCollective`s of one world that live in this process share: one of them as a rule, and all of them
/// where the ranks are threads. Through it the launcher stops them.
///
/// `request_stop` reaches the ranks of the whole world; `abort` and `leave` those of this process. Ranks that wait
/// abort their communicators within some milliseconds of an `abort`; an operation that is stopped so may have ended on
/// another rank. Ranks of other processes wait until theirs are aborted, NCCL reports the loss, or
/// `WaitLimits::timeout` is over.
///
/// Threads: every function from any thread.
class NcclGroup : public CollectiveGroup {
 public:
  /// The same id, size and reduction on every rank.
  ///
  /// Errors: `invalid_call` for an empty world or an id that nobody created, and what `WaitLimits::validate` throws.
  NcclGroup(NcclId const& id, WorldSize size, NcclOptions options = {})
      : id_{id}, options_{std::move(options)}, members_(size.value) {
    if (size.value < 1) throw Error{Errc::invalid_call, "NcclGroup", "needs at least 1 worker (got 0)"};
    if (id == NcclId{}) {
      throw Error{Errc::invalid_call, "NcclGroup", "needs an id that a rank created (got zeros)",
                  "broadcast the bytes of NcclId::create() from one rank to all"};
    }
    options_.limits.validate("NcclGroup");
  }

  [[nodiscard]] auto size() const noexcept -> WorldSize override {
    return {static_cast<std::uint32_t>(members_.size())};
  }

 private:
  friend class NcclCollective;
  static constexpr std::uint32_t nobody = ~0U;

  void do_request_stop() noexcept override { stop_requested_.store(true); }
  void do_abort() noexcept override { aborted_.store(true); }
  void do_leave(Rank rank, std::uint64_t) noexcept override {
    if (rank.value >= members_.size()) return;
    members_[rank.value].ended.store(true);
    auto expected = nobody;
    first_ended_.compare_exchange_strong(expected, rank.value);
  }

  struct Member {
    std::atomic<bool> here{false};  ///< It is one of this process.
    std::atomic<bool> ended{false};
    std::atomic<std::uint64_t> operations{0};  ///< How many it has entered.
    std::atomic<std::uint64_t> growths{0};     ///< How often it has got more memory of the device.
  };

  /// A member that will never enter the operation of this number; the one that ended first if there are more.
  [[nodiscard]] auto ended_before(std::uint64_t operation) const noexcept -> std::optional<Rank> {
    auto const first = first_ended_.load();
    if (first == nobody) return std::nullopt;
    if (lacks(first, operation)) return Rank{first};
    for (std::uint32_t rank = 0; rank < members_.size(); ++rank)
      if (members_[rank].ended.load() && lacks(rank, operation)) return Rank{rank};
    return std::nullopt;
  }

  /// Whether all ranks of this process have got more memory as often.
  [[nodiscard]] auto all_grown(std::uint64_t growths) const noexcept -> bool {
    return std::ranges::none_of(
        members_, [=](Member const& member) { return member.here.load() && member.growths.load() < growths; });
  }

  /// Those who have not entered the operation, as far as this process knows; NCCL names none of others.
  [[nodiscard]] auto missing_in(std::uint64_t operation) const -> std::vector<std::uint32_t> {
    std::vector<std::uint32_t> missing;
    for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
      if (members_[rank].here.load() && lacks(rank, operation)) missing.push_back(rank);
    }
    return missing;
  }

  /// Whether a rank is the lowest of this process that has entered the operation: the one that warns.
  [[nodiscard]] auto is_lowest_in(std::uint64_t operation, Rank rank) const noexcept -> bool {
    for (std::uint32_t lower = 0; lower < rank.value; ++lower)
      if (members_[lower].here.load() && !lacks(lower, operation)) return false;
    return true;
  }

  [[nodiscard]] auto lacks(std::uint32_t rank, std::uint64_t operation) const noexcept -> bool {
    return members_[rank].operations.load() < operation;
  }

  NcclId id_;
  NcclOptions options_;
  std::vector<Member> members_;
  std::atomic<std::uint32_t> first_ended_{nobody};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> stop_requested_{false};
};

}  // namespace raytrain
