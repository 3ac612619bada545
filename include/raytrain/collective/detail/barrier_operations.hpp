// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <raytrain/collective/detail/agreement.hpp>
#include <raytrain/collective/detail/barrier.hpp>
#include <raytrain/collective/detail/reduce.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/waiting.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// The operations of a `Collective` whose ranks share memory.
///
/// Arrays take one of three ways, the same one for all ranks of an operation:
///  - inlined: small ones are copied into the slot with which a rank enters a barrier, and read from there;
///  - direct: where all ranks' arrays are in memory that all see, the ranks work on each other's arrays, and
///    enter a second barrier before anybody uses them again;
///  - buffered: otherwise they go piece by piece through `Memory`'s bounce buffers. Each rank has two halves, one for
///    even and one for odd pieces, so that one barrier a piece is enough: who enters it has done with the piece before.
///
/// `Memory` knows where arrays are:
///     static constexpr bool sees_all;                                 // whether every rank sees every array
///     auto location_of(std::span<std::byte const>) -> ArrayLocation;  // of an array of this rank
///     auto address(ArrayLocation) -> std::byte*;                      // of an array that is shared, of any rank
///     auto bounce_buffer(Rank owner, bool odd) -> std::span<std::byte>;
/// Through its bounce buffer `owner` shows a piece of its array, and gets a piece of the result. The halves are equally
/// long; they are empty where `sees_all`.
template <class Memory>
class BarrierOperations {
 public:
  BarrierOperations(BarrierState& barrier, BarrierMember member, Memory memory)
      : barrier_{barrier, std::move(member)}, memory_{std::move(memory)} {}

  [[nodiscard]] auto rank() const noexcept -> Rank { return barrier_.member().rank; }
  [[nodiscard]] auto size() const noexcept -> WorldSize { return barrier_.state().members(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool { return barrier_.stop_agreed(); }
  [[nodiscard]] auto world_ranks() const noexcept -> std::vector<std::uint32_t> const& {
    return barrier_.member().world_ranks;
  }

  /// Shows all ranks what each has to say about a call, which they then perform by other means: `mine` becomes
  /// `all[rank]`. The task's arrays are not looked at.
  ///
  /// Errors: as `run`.
  template <class Header>
  void exchange_headers(Task const& task, Header const& mine, std::span<Header> all) {
    static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) <= Slot::inline_bytes);
    std::memcpy(barrier_.next_slot().bytes, &mine, sizeof mine);
    enter(task.compared());
    check_agreement(task);
    for (std::uint32_t rank = 0; rank < ranks(); ++rank)
      std::memcpy(&all[rank], barrier_.slots()[rank].bytes, sizeof mine);
  }

  void run(Task const& task) {
    if (ranks() == 1) {
      enter(task.compared());
      return copy(task.to.data(), task.from.data(), task.to.size());
    }
    switch (task.call.operation) {
      case Operation::barrier:
      case Operation::duplicate: enter(task.compared()); return check_agreement(task);
      case Operation::all_reduce:
      case Operation::reduce: return reduce(task);
      case Operation::reduce_scatter: return reduce_scatter(task);
      case Operation::broadcast: return broadcast(task);
      case Operation::scatter: return scatter(task);
      case Operation::gather:
      case Operation::all_gather:
      case Operation::all_gatherv: return gather(task);
    }
  }

 private:
  enum class Way : std::uint8_t { inlined, direct, buffered };

  /// A part of an array, in bytes, as everything here.
  struct Range {
    std::size_t begin;
    std::size_t size;
  };

  /// An array of `size` bytes that goes through the bounce buffers in pieces of `piece_size` bytes, the last one
  /// shorter. `fill(range)` puts what other ranks read of that piece of this rank's array into its bounce buffer.
  /// `empty(range)` takes the result out of there, once all ranks have worked on the piece and the next one is in the
  /// other halves.
  template <class Fill, class Empty>
  struct Pieces {
    std::size_t size;
    std::size_t piece_size;
    Fill fill;
    Empty empty;

    [[nodiscard]] auto at(std::size_t begin) const noexcept -> Range {
      return {begin, std::min(piece_size, size - begin)};
    }
  };
  template <class Fill, class Empty>
  Pieces(std::size_t, std::size_t, Fill, Empty) -> Pieces<Fill, Empty>;

  struct Nothing {
    void operator()(Range) const noexcept {}
  };

  [[nodiscard]] auto ranks() const noexcept -> std::uint32_t { return size().value; }
  [[nodiscard]] auto me() const noexcept -> std::uint32_t { return rank().value; }

  // Barriers ----------------------------------------------------------------------------------------------------------

  /// Every rank reads what every rank has inlined, so that more ranks make it dearer.
  [[nodiscard]] auto is_inlined(std::size_t largest_bytes) const noexcept -> bool {
    return largest_bytes <= (ranks() <= 2 ? Slot::inline_bytes : Slot::inline_bytes / 4);
  }

  /// Enters the barrier that begins an operation. `largest_bytes`: of what a rank gives, on whichever rank it is
  /// largest; the same number on all.
  template <class Fill, class Empty>
  auto open(Task const& task, std::size_t largest_bytes, Pieces<Fill, Empty> const& pieces) -> Way {
    auto& slot = barrier_.next_slot();
    bool const inlined = is_inlined(largest_bytes);
    if (inlined) {
      if (!task.from.empty()) std::memcpy(slot.bytes, task.from.data(), task.from.size());
    } else {
      slot.from = memory_.location_of(task.from);
      slot.to = memory_.location_of(task.to);
      if constexpr (!Memory::sees_all) {
        if (slot.from.kind == ArrayLocation::Kind::hidden) pieces.fill(pieces.at(0));
      }
    }
    enter(task.compared());
    check_agreement(task);
    if (inlined) return Way::inlined;
    if constexpr (!Memory::sees_all) {
      for (auto const& each : barrier_.slots()) {
        if (each.from.kind == ArrayLocation::Kind::hidden || each.to.kind == ArrayLocation::Kind::hidden)
          return Way::buffered;
      }
    }
    return Way::direct;
  }

  /// Ends what `open` began in some way but `inlined`: then nobody uses another's memory any more.
  void close(Call const& call) { check(barrier_.finish(call), call); }
  void enter(Call const& call) { check(barrier_.enter(call), call); }

  void check(Barrier::Outcome outcome, Call const& call) const {
    if (outcome != Barrier::Outcome::completed) [[unlikely]]
      refuse(outcome, call);
  }

  void check_agreement(Task const& task) {
    auto const call_of = [slots = barrier_.slots()](std::uint32_t rank) -> Call const& { return slots[rank].call; };
    if (auto const odd = Agreement::first_mismatch(size(), call_of)) [[unlikely]]
      disagree(*odd, task);
  }

  /// Every rank finds the same one, so all of them throw the same error.
  [[noreturn]] void disagree(Rank odd, Task const& task) {
    auto const call_of = [&](Rank member) -> RankCall {
      return {barrier_.world_rank_of(member), barrier_.slots()[member.value].call};
    };
    auto const first = call_of(Rank{0});
    auto const second = call_of(odd);
    // Counts can be compared only where every rank has called all_gatherv itself, and not performs a part of a call.
    bool const have_counts = task.of == nullptr && std::ranges::all_of(barrier_.slots(), [](Slot const& slot) {
                               return slot.call.operation == Operation::all_gatherv;
                             });
    auto const shown = [&](Rank of) { return counts_of(of == first.rank ? Rank{0} : odd, task.counts); };
    auto const error = have_counts ? Agreement::mismatch(first, second, shown) : mismatch_error(first, second);
    barrier_.state().break_up();
    agreement_.end_by(error);
  }

  /// The counts of one rank. All ranks come here, and show theirs as far as slots have room for them, again and again.
  auto counts_of(Rank of, std::span<std::size_t const> counts) -> std::vector<std::size_t> {
    std::vector<std::size_t> result(ranks());
    auto const call = barrier_.slots()[0].call;
    constexpr auto room = Slot::inline_bytes / sizeof(std::size_t);
    for (std::size_t begin = 0; begin < ranks(); begin += room) {
      auto const bytes = std::min<std::size_t>(room, ranks() - begin) * sizeof(std::size_t);
      std::memcpy(barrier_.next_slot().bytes, counts.data() + begin, bytes);
      close(call);
      std::memcpy(result.data() + begin, barrier_.slots()[of.value].bytes, bytes);
    }
    return result;
  }

  [[noreturn]] void refuse(Barrier::Outcome outcome, Call const& call) const {
    auto const& state = barrier_.state();
    auto const me = barrier_.world_rank_of(rank());
    switch (outcome) {
      case Barrier::Outcome::ended:
        throw ended_error({.ended = barrier_.world_rank_of(state.first_ended()), .waiting = me}, to_string(call));
      case Barrier::Outcome::broken: agreement_.check_usable(call, me); throw Stopped{};
      case Barrier::Outcome::timed_out: {
        auto const missing = barrier_.missing();
        auto const& timeout = barrier_.member().limits.timeout;
        if (!missing.empty()) throw late_error({missing, timeout}, me, to_string(call));
        auto const first = std::to_string(barrier_.world_rank_of(state.first_timed_out()).value);
        throw unusable_error(Errc::timed_out, "rank " + first + " waited in vain for " + time_text(timeout),
                             {me, call});
      }
      default: throw Stopped{};
    }
  }

  // Arrays ------------------------------------------------------------------------------------------------------------

  /// What `rank` gives, in whole.
  [[nodiscard]] auto source(Way way, std::uint32_t rank) const noexcept -> std::byte const* {
    auto const& slot = barrier_.slots()[rank];
    return way == Way::inlined ? slot.bytes : memory_.address(slot.from);
  }

  [[nodiscard]] auto target(std::uint32_t rank) const noexcept -> std::byte* {
    return memory_.address(barrier_.slots()[rank].to);
  }

  static void copy(std::byte* to, std::byte const* from, std::size_t size) noexcept {
    if (size > 0 && to != from) std::memcpy(to, from, size);
  }

  /// What `rank` works on of an array of all ranks: whole cache lines, so that no line is written by two ranks.
  [[nodiscard]] auto slice_of(std::size_t size, std::uint32_t rank) const noexcept -> Range {
    auto const lines = (size + cache_line_bytes - 1) / cache_line_bytes;
    auto const border = [&](std::size_t of) { return std::min(lines * of / ranks() * cache_line_bytes, size); };
    auto const begin = border(rank);
    return {begin, border(rank + std::size_t{1}) - begin};
  }

  // Pieces ------------------------------------------------------------------------------------------------------------

  /// Of each rank's bounce buffer. Which is which follows from the number of the last barrier.
  enum class Half : std::uint8_t {
    shown,  ///< All ranks may work on it until the next barrier.
    other,  ///< The rank's own: what is in it is from before the last barrier, or will be shown from the next one on.
  };

  [[nodiscard]] auto bounce_buffer(std::uint32_t rank, Half half) const noexcept -> std::byte* {
    return memory_.bounce_buffer(Rank{rank}, barrier_.is_odd() == (half == Half::shown)).data();
  }

  /// Whether only `rank` sees its array.
  [[nodiscard]] auto is_hidden(std::uint32_t rank) const noexcept -> bool {
    return barrier_.slots()[rank].from.kind == ArrayLocation::Kind::hidden;
  }

  /// What a bounce buffer has room for, if it is to hold `arrays` pieces of one size: whole elements.
  [[nodiscard]] auto piece_size(Task const& task, std::uint32_t arrays = 1) const noexcept -> std::size_t {
    auto const element = size_bytes(task.call.element);
    return memory_.bounce_buffer(Rank{0}, false).size() / element / arrays * element;
  }

  /// Where to read the piece of `rank`'s array that begins `begin` bytes after the array does: in the array itself, or,
  /// if only `rank` sees that, `buffer_begin` bytes after the beginning of its bounce buffer.
  [[nodiscard]] auto piece_of(std::uint32_t rank, std::size_t begin, std::size_t buffer_begin = 0) const noexcept
      -> std::byte const* {
    return is_hidden(rank) ? bounce_buffer(rank, Half::shown) + buffer_begin : source(Way::buffered, rank) + begin;
  }

  /// Takes an array, whose first piece is in the bounce buffers, piece by piece: calls `work(range)` when a piece is in
  /// the bounce buffers.
  template <class Fill, class Empty, class Work>
  void in_pieces(Call const& call, Pieces<Fill, Empty> const& pieces, Work const& work) {
    if constexpr (!Memory::sees_all) {
      for (std::size_t begin = 0; begin < pieces.size; begin += pieces.piece_size) {
        work(pieces.at(begin));
        auto const next = begin + pieces.piece_size;
        if (is_hidden(me()) && next < pieces.size) pieces.fill(pieces.at(next));
        auto const& shown = barrier_.slots()[me()];
        barrier_.next_slot().from = shown.from;
        barrier_.next_slot().to = shown.to;
        close(call);
        pieces.empty(pieces.at(begin));
      }
    }
  }

  /// Arrays of one part for each rank, of `part_size` bytes. A piece is a piece of every part, `piece_size` bytes apart
  /// in the bounce buffers; those that other ranks will read are put there.
  [[nodiscard]] auto pieces_of_parts(Task const& task, std::size_t part_size) const noexcept {
    auto const piece = piece_size(task, ranks());
    return Pieces{part_size, piece,
                  [this, from = task.from.data(), part_size, piece](Range range) {
                    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
                      if (rank == me()) continue;
                      copy(bounce_buffer(me(), Half::other) + rank * piece, from + rank * part_size + range.begin,
                           range.size);
                    }
                  },
                  Nothing{}};
  }

  // Operations --------------------------------------------------------------------------------------------------------

  /// Combines the arrays `source(rank)` of all ranks into the target.
  template <class Source>
  void reduce_to(Task const& task, std::span<std::byte> target, Source const& source) {
    auto const only = [&](std::uint32_t) { return target.data(); };
    (*task.reducers)[task.call.op]({ranks(), me(), source}, target.size(), {1, only});
  }

  /// all_reduce, and reduce, whose result only root gets.
  void reduce(Task const& task) {
    auto const size = task.from.size();
    Pieces const pieces{
        size, piece_size(task),
        [&](Range range) {
          copy_all_but_mine(bounce_buffer(me(), Half::other), task.from.data() + range.begin, range.size);
        },
        [&](Range range) {
          if (is_hidden(me()) && !task.to.empty())
            copy_all_but_mine(task.to.data() + range.begin, bounce_buffer(me(), Half::other), range.size);
        }};
    auto const way = open(task, size, pieces);
    if (way == Way::inlined) {
      if (!task.to.empty()) {
        reduce_to(task, task.to, [&](std::uint32_t rank) { return source(way, rank); });
      }
      return;
    }
    if (way == Way::direct) {
      auto const slice = slice_of(size, me());
      auto const from = [&](std::uint32_t rank) { return source(way, rank) + slice.begin; };
      if (task.call.operation == Operation::reduce) {
        reduce_to(task, {target(task.call.root.value) + slice.begin, slice.size}, from);
      } else {
        auto const to = [&](std::uint32_t rank) { return target(rank) + slice.begin; };
        (*task.reducers)[task.call.op]({ranks(), me(), from}, slice.size, {ranks(), to});
      }
      return close(task.compared());
    }
    in_pieces(task.compared(), pieces, [&](Range range) {
      auto const mine = slice_of(range.size, me());
      auto const begin = range.begin + mine.begin;
      auto const from = [&](std::uint32_t rank) {
        return rank == me() ? task.from.data() + begin : piece_of(rank, begin, mine.begin);
      };
      // The result goes to where the slice was buffered: cache lines move to the rank that reduces them, and back.
      // By way of other lines it took 3 to 5 times as long on hosts that are slow to write what another core has
      // read.
      auto const to = [&](std::uint32_t rank) {
        if (rank == me()) return task.to.data() + begin;
        return is_hidden(rank) ? bounce_buffer(rank, Half::shown) + mine.begin : target(rank) + begin;
      };
      if (task.call.operation == Operation::reduce) return reduce_to(task, {to(task.call.root.value), mine.size}, from);
      (*task.reducers)[task.call.op]({ranks(), me(), from}, mine.size, {ranks(), to});
    });
  }

  /// Copies what other ranks reduce of an array: all but this rank's own slice.
  void copy_all_but_mine(std::byte* to, std::byte const* from, std::size_t size) const noexcept {
    auto const mine = slice_of(size, me());
    auto const end = mine.begin + mine.size;
    copy(to, from, mine.begin);
    copy(to + end, from + end, size - end);
  }

  void reduce_scatter(Task const& task) {
    auto const size = task.to.size();
    auto const pieces = pieces_of_parts(task, size);
    auto const way = open(task, task.from.size(), pieces);
    if (way != Way::buffered) {
      reduce_to(task, task.to, [&](std::uint32_t rank) { return source(way, rank) + me() * size; });
      if (way == Way::direct) close(task.compared());
      return;
    }
    in_pieces(task.compared(), pieces, [&](Range range) {
      auto const begin = me() * size + range.begin;
      auto const from = [&](std::uint32_t rank) {
        return rank == me() ? task.from.data() + begin : piece_of(rank, begin, me() * pieces.piece_size);
      };
      reduce_to(task, task.to.subspan(range.begin, range.size), from);
    });
  }

  void broadcast(Task const& task) {
    auto const root = task.call.root.value;
    auto const size = task.to.size();
    Pieces const pieces{
        size, piece_size(task),
        [&](Range range) { copy(bounce_buffer(me(), Half::other), task.from.data() + range.begin, range.size); },
        Nothing{}};
    auto const way = open(task, size, pieces);
    if (way != Way::buffered) {
      if (me() != root) copy(task.to.data(), source(way, root), size);
      if (way == Way::direct) close(task.compared());
      return;
    }
    in_pieces(task.compared(), pieces, [&](Range range) {
      if (me() != root) copy(task.to.data() + range.begin, piece_of(root, range.begin), range.size);
    });
  }

  void scatter(Task const& task) {
    auto const root = task.call.root.value;
    auto const size = task.to.size();
    auto const pieces = pieces_of_parts(task, size);
    auto const way = open(task, size * ranks(), pieces);
    if (way != Way::buffered) {
      copy(task.to.data(), source(way, root) + me() * size, size);
      if (way == Way::direct) close(task.compared());
      return;
    }
    in_pieces(task.compared(), pieces, [&](Range range) {
      auto const begin = me() * size + range.begin;
      copy(task.to.data() + range.begin,
           me() == root ? task.from.data() + begin : piece_of(root, begin, me() * pieces.piece_size), range.size);
    });
  }

  /// gather, whose result only root gets, all_gather and all_gatherv.
  void gather(Task const& task) {
    auto const element = size_bytes(task.call.element);
    auto const size_of = [&](std::uint32_t rank) {
      return element * (task.counts.empty() ? task.call.count : task.counts[rank]);
    };
    auto const largest = element * (task.counts.empty() ? task.call.count : *std::ranges::max_element(task.counts));
    auto const part_of = [](Range range, std::size_t size) {
      auto const begin = std::min(range.begin, size);
      return Range{begin, std::min(range.size, size - begin)};
    };
    Pieces const pieces{static_cast<std::size_t>(largest), piece_size(task),
                        [&](Range range) {
                          auto const part = part_of(range, task.from.size());
                          copy(bounce_buffer(me(), Half::other), task.from.data() + part.begin, part.size);
                        },
                        Nothing{}};
    auto const way = open(task, largest, pieces);
    auto const copy_all = [&](Range range, auto const& from) {
      if (task.to.empty()) return;
      auto* to = task.to.data();
      for (std::uint32_t rank = 0; rank < ranks(); to += size_of(rank++)) {
        auto const part = part_of(range, size_of(rank));
        copy(to + part.begin, rank == me() ? task.from.data() + part.begin : from(rank, part.begin), part.size);
      }
    };
    if (way == Way::buffered) {
      return in_pieces(task.compared(), pieces, [&](Range range) {
        copy_all(range, [&](std::uint32_t rank, std::size_t begin) { return piece_of(rank, begin); });
      });
    }
    if (way == Way::direct && task.call.operation == Operation::gather) {
      copy(target(task.call.root.value) + me() * task.from.size(), task.from.data(), task.from.size());
    } else {
      copy_all({0, largest}, [&](std::uint32_t rank, std::size_t begin) { return source(way, rank) + begin; });
    }
    if (way == Way::direct) close(task.compared());
  }

  Barrier barrier_;
  Memory memory_;
  Agreement agreement_;
};

}  // namespace raytrain::detail
