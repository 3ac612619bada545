// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/reduce.hpp>
#include <raytrain/collective/detail/rendezvous.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/core/stopped.hpp>

namespace raytrain {

/// The world of workers that are threads of this process: what their `LocalCollective`s share.
///
/// Threads: every function from any thread.
class LocalGroup {
 public:
  static constexpr std::uint32_t max_size = detail::Rendezvous::max_members;

  /// Errors: `invalid_call` unless the size is from 1 to `max_size`.
  explicit LocalGroup(WorldSize size)
      : size_{checked(size)}, meeting_{size}, notices_(std::size_t{2} * size.value), inlined_(notices_.size()) {}

  [[nodiscard]] auto size() const noexcept -> WorldSize { return size_; }

  /// Makes `LocalCollective::stop_agreed` true on every rank, from the same operation on: one in which not all ranks
  /// have arrived yet.
  void request_stop() noexcept { meeting_.request_stop(); }

  /// Makes ranks that wait for others, and all later calls, throw `Stopped`. What all ranks are at work on ends first.
  void abort() noexcept { meeting_.abort(); }

  /// A worker's function has ended: ranks that wait for it, and all later calls, throw `Error{Errc::rank_mismatch}`.
  /// After `abort` they throw `Stopped`; so a worker that fails aborts before it leaves.
  void leave(Rank rank) noexcept { meeting_.end(rank); }

 private:
  friend class LocalCollective;

  /// What a rank shows to the others. `source` is what they may read, or null; `target` is what they may write, or
  /// null; `counts` are those of all ranks that it called all_gatherv with, or null.
  struct alignas(detail::cache_line_bytes) Notice {
    detail::Call call{};
    std::span<std::byte const> source{};
    void* target = nullptr;
    std::size_t const* counts = nullptr;
  };

  /// Above it, a second wait costs less than a copy and the reduction of the whole by every rank.
  static constexpr std::size_t inline_bytes = 256;
  struct alignas(detail::cache_line_bytes) Inlined {
    std::byte bytes[inline_bytes];
  };

  static auto checked(WorldSize size) -> WorldSize {
    if (size.value < 1 || size.value > max_size) {
      throw Error{Errc::invalid_call, "LocalGroup",
                  "needs from 1 to " + std::to_string(max_size) + " workers (got " + std::to_string(size.value) + ")"};
    }
    return size;
  }

  /// Whether sources are copied and shown as copies: `largest_bytes` is the size of the largest on any rank. Then no
  /// rank waits for the readers of its own array.
  [[nodiscard]] static auto is_inline(std::size_t largest_bytes) noexcept -> bool {
    return largest_bytes <= inline_bytes;
  }

  /// Shows a notice, waits for all ranks and returns theirs, in rank order. They stay as they are until this rank's
  /// next `open`; the memory they point to, until `close`.
  auto open(Rank rank, Notice const& notice, std::size_t largest_bytes) -> std::span<Notice const> {
    // Two sets in turn: a rank that is already in the next operation may not disturb one that still reads this one's.
    auto const first = std::size_t{meeting_.parity()} * size_.value;
    auto& shown = notices_[first + rank.value];
    shown = notice;
    if (is_inline(largest_bytes) && notice.source.data() != nullptr) {
      auto& copy = inlined_[first + rank.value];
      std::memcpy(copy.bytes, notice.source.data(), notice.source.size());
      shown.source = {copy.bytes, notice.source.size()};
    }
    if (auto const outcome = meeting_.meet(); outcome != detail::Rendezvous::Outcome::met)
      refuse(outcome, rank, notice);
    auto const all = std::span<Notice const>{notices_}.subspan(first, size_.value);
    check_agreement(all);
    return all;
  }

  /// Waits until no rank uses another's memory any more. Cannot be interrupted: a rank that left early would free what
  /// others are writing to.
  void close(std::size_t largest_bytes) noexcept {
    if (!is_inline(largest_bytes)) meeting_.finish();
  }

  struct FinishOnExit {
    detail::Rendezvous& meeting;
    ~FinishOnExit() { meeting.finish(); }
  };

  /// The call, with that of the counts in which it differs from the other call.
  [[nodiscard]] auto describe(Notice const& notice, Notice const& other) const -> std::string {
    auto text = to_string(notice.call);
    if (notice.counts == nullptr || other.counts == nullptr) return text;
    auto const* const end = notice.counts + size_.value;
    auto const* const count = std::mismatch(notice.counts, end, other.counts).first;
    if (count == end) return text;
    return text + " of which rank " + std::to_string(count - notice.counts) + " sends " + std::to_string(*count);
  }

  void check_agreement(std::span<Notice const> notices) {
    auto const& first = notices[0].call;
    for (std::uint32_t rank = 1; rank < notices.size(); ++rank) {
      if (notices[rank].call == first) continue;
      // All ranks come here, and none may free its counts as long as another one reads them.
      FinishOnExit const all_have_read{meeting_};
      // Every rank finds the same pair, so all of them throw the same error.
      Error const error{Errc::rank_mismatch, "collective call",
                        "rank 0 calls " + describe(notices[0], notices[rank]) + ", but rank " + std::to_string(rank) +
                            " calls " + describe(notices[rank], notices[0]),
                        "make every rank call the same operations in the same order, on arrays of one size and type"};
      {
        std::scoped_lock const lock{mismatch_mutex_};
        mismatch_ = error.happened();
      }
      meeting_.break_up();
      throw error;
    }
  }

  [[noreturn]] void refuse(detail::Rendezvous::Outcome outcome, Rank rank, Notice const& notice) {
    using enum detail::Rendezvous::Outcome;
    if (outcome == aborted) throw Stopped{};
    auto const me = "rank " + std::to_string(rank.value);
    auto const call = to_string(notice.call);
    if (outcome == ended) {
      throw Error{
          Errc::rank_mismatch, "collective call",
          "rank " + std::to_string(meeting_.first_ended().value) + " has ended while " + me + " waits in " + call,
          "make every rank call the same operations, as often"};
    }
    std::scoped_lock const lock{mismatch_mutex_};
    throw Error{Errc::rank_mismatch, call + " on " + me, "the group is unusable since " + mismatch_,
                "let the error end the training function"};
  }

  WorldSize size_;
  detail::Rendezvous meeting_;
  std::vector<Notice> notices_;
  std::vector<Inlined> inlined_;
  std::mutex mismatch_mutex_;
  std::string mismatch_;
};

}  // namespace raytrain
