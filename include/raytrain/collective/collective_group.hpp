// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// What the collectives of a world are told from outside their operations, whichever model they are. What a group is
/// told, its duplicates are told as well.
///
/// Threads: every function from any thread.
class CollectiveGroup {
 public:
  CollectiveGroup(CollectiveGroup const&) = delete;
  auto operator=(CollectiveGroup const&) -> CollectiveGroup& = delete;
  virtual ~CollectiveGroup() = default;

  [[nodiscard]] virtual auto size() const noexcept -> WorldSize = 0;

  /// Makes `stop_agreed` true on every rank, from the same operation on: one in which not all ranks have arrived yet.
  void request_stop() noexcept;

  /// Makes ranks that wait for others, and all later calls, throw `Stopped`.
  void abort() noexcept;

  /// A worker's function has ended: ranks that wait for it throw `Error{Errc::rank_mismatch}`. After `abort` they throw
  /// `Stopped`; so a worker that fails aborts before it leaves.
  ///
  /// `operations`: what `calls_made` said on that rank in the end; duplicates are told only where that is 0. After
  /// `request_stop` ranks of other hosts that wait for it throw `Stopped`, also in duplicates.
  void leave(Rank rank, std::uint64_t operations = 0) noexcept;

  /// What this process's rank has called where calls are not compared while it runs: how many operations, and a number
  /// that is another one for other calls. Both are 0 where each call is compared.
  struct CallsMade {
    std::uint64_t operations = 0;
    std::uint64_t digest = 0;
    friend auto operator==(CallsMade const&, CallsMade const&) -> bool = default;
  };

  /// Threads: the worker's.
  [[nodiscard]] virtual auto calls_made() const noexcept -> CallsMade { return {}; }

  /// Whether an operation was given up that cannot be taken back, and may still write to arrays that this process's
  /// rank has handed over: then they must stay until the process ends, and no other worker runs in it.
  ///
  /// Threads: the worker's.
  [[nodiscard]] virtual auto has_pending() const noexcept -> bool { return false; }

 protected:
  CollectiveGroup() = default;

  /// From now on `duplicate` is told what this group is told, and now what it has been told.
  void adopt(std::shared_ptr<CollectiveGroup> const& duplicate);

 private:
  /// The same for this group alone.
  virtual void do_request_stop() noexcept = 0;
  virtual void do_abort() noexcept = 0;
  virtual void do_leave(Rank rank, std::uint64_t operations) noexcept = 0;

  template <class Tell>
  void tell_duplicates(Tell const& tell) noexcept;

  std::mutex mutex_;
  bool stop_requested_ = false;
  bool aborted_ = false;
  std::optional<Rank> first_left_;
  std::vector<std::weak_ptr<CollectiveGroup>> duplicates_;
};

class Collective;

/// A world of workers in one process: their group, and what makes each worker's collective, on its own thread.
struct Collectives {
  std::shared_ptr<CollectiveGroup> group;
  std::function<std::unique_ptr<Collective>(Rank)> collective_of;
};

}  // namespace raytrain

namespace raytrain::detail {

// Checks of the arguments of groups and collectives; `name` is the class. Errors: `invalid_call`.

auto checked_size(char const* name, WorldSize size, std::uint32_t largest) -> WorldSize;

template <class Group>
auto checked_group(char const* name, std::shared_ptr<Group> group) -> std::shared_ptr<Group> {
  if (group != nullptr) return group;
  throw Error{Errc::invalid_call, name, "needs a group (got null)"};
}

/// The group, if there is one and it has such a rank.
template <class Group>
auto checked_group(char const* name, std::shared_ptr<Group> group, Rank rank) -> std::shared_ptr<Group> {
  group = checked_group(name, std::move(group));
  if (rank.value < group->size().value) return group;
  throw Error{
      Errc::invalid_call, name,
      "rank must be below " + std::to_string(group->size().value) + " (got " + std::to_string(rank.value) + ")"};
}

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/collective_group-inl.hpp>
#endif
