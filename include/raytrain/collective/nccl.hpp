// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/cuda/detail/device_model.hpp>
#include <raytrain/collective/cuda/detail/device_reduction.hpp>
#include <raytrain/collective/cuda/device_memory.hpp>
#include <raytrain/collective/detail/agreement.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/nccl/nccl_communicator.hpp>
#include <raytrain/collective/nccl/nccl_group.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/collective/waiting.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/reduction.hpp>

namespace raytrain {

/// One worker's side of a world of GPUs, each with one rank: exchanges arrays in device memory through NCCL.
///
/// Every operation begins with a small all_gather in which the ranks compare their calls; so ranks that differ are
/// told, in other processes as well, and nothing of the operation has happened. Which order values are combined in:
///  - sum, average and product of float and double are NCCL's, whose order follows the topology: equal on all ranks,
///    and on the next run on the same machines with the same NCCL. An average is a sum that is divided once;
///  - sum, average, product, min and max of integers of 8, 32 and 64 bits are NCCL's, and exact;
///  - what NCCL lacks, or rounds in another way than `Collective` promises, the ranks do themselves: they exchange
///    parts and combine each in rank order on the device. So are Float16 and BFloat16 combined in float and rounded
///    once, a NaN is the result of min and max, and 16-bit integers can be reduced. With `Reduction::rank_order` they
///    do so always.
///
/// Threads: one at a time, the worker's.
/// Errors:  every operation: `rank_mismatch` as `Collective` says, `invalid_call` for a null array with a size, for one
///          that does not lie in the device's memory or what the operation names; the group stays usable after the
///          latter. `backend` for what CUDA and NCCL report, `timed_out` after `WaitLimits::timeout`: then the
///          communicator is aborted, and every later call says so. `Stopped` after `NcclGroup::abort`. `duplicate`
///          always throws `invalid_call`.
/// Cost:    the comparison, two latencies of the network; then NCCL's. Parts in rank order carry as many bytes as an
///          all_reduce by a ring, 2 * (ranks - 1) / ranks of the array, but between hosts once for each rank instead of
///          once for each host; they need a second array's memory.
class NcclCollective final : public detail::DeviceModel {
 public:
  /// Returns when all ranks have come. A rank per GPU: NCCL takes none twice.
  ///
  /// Errors: `invalid_call` when there is no group, no such rank in it or no such device; `backend` where there is no
  ///         GPU or no driver; as an operation while it waits for the others.
  NcclCollective(std::shared_ptr<NcclGroup> group, Rank rank, DeviceStream stream = {})
      : DeviceModel{stream}, group_{checked(std::move(group), rank, stream)}, rank_{rank}, done_{stream.device} {
    detail::DeviceScope const scope{stream.device};
    group_->members_[rank_.value].here.store(true);
    auto const what = "NcclCollective on device " + std::to_string(stream.device);
    auto const attempted = on_rank(what);
    detail::check_cuda(detail::load_kernels(), attempted);
    // To have it before any rank of this process has a kernel that waits for others: see `reserve`.
    auto const largest_bytes =
        std::max(sizeof(CallHeader), std::min(std::size_t{size().value}, std::size_t{64}) * sizeof(std::size_t));
    (void)headers_on_cpu_.at_least((size().value + std::size_t{1}) * largest_bytes);
    (void)headers_on_device_.at_least(size().value * largest_bytes);
    guarded([&] {
      if (group_->aborted_.load()) throw Stopped{};
      communicator_.start(group_->id_.native(), {.rank = rank_, .size = size()}, attempted);
      await(what, [&] { return communicator_.is_ready(attempted); });
    });
  }
  NcclCollective(NcclCollective&&) noexcept = default;
  auto operator=(NcclCollective&&) noexcept -> NcclCollective& = default;
  ~NcclCollective() override {
    if (group_ != nullptr && group_->aborted_.load()) communicator_.abort();
  }

  [[nodiscard]] auto rank() const noexcept -> Rank override { return rank_; }
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return group_->size(); }

  /// Whether `NcclGroup::request_stop` was called on any rank, as of the last operation; of one rank, as of now.
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override {
    return stop_agreed_ || (size() == WorldSize{1} && group_->stop_requested_.load());
  }

 private:
  /// What a rank shows to the others.
  struct CallHeader {
    Call call;
    std::uint32_t wants_stop;
    Reduction reduction;
  };
  static_assert(std::is_trivially_copyable_v<CallHeader>);

  /// A piece of an array, in bytes.
  struct Piece {
    std::size_t begin;
    std::size_t size;
  };

  /// Where this rank's own piece is, and the array that all ranks' pieces make.
  struct Way {
    std::byte const* mine;
    std::byte* to;
  };

  static auto checked(std::shared_ptr<NcclGroup> group, Rank rank, DeviceStream const& stream)
      -> std::shared_ptr<NcclGroup> {
    group = detail::checked_group("NcclCollective", std::move(group), rank);
    detail::check_device(stream.device, "NcclCollective on device " + std::to_string(stream.device));
    int found = 0;
    detail::check_nccl(ncclGetVersion(&found), "ncclGetVersion");
    if (found < NCCL_VERSION(2, 18, 0)) {
      throw Error{Errc::backend, "NcclCollective", "needs NCCL 2.18 or newer (found " + std::to_string(found) + ")",
                  "let the dynamic linker find the libnccl.so.2 that the program was built with"};
    }
    return group;
  }

  void perform(Task const& task) override {
    compare_calls(task.call, task.counts);
    if (task.call.count == 0) return;
    guarded([&] {
      work(task);
      await_stream(task.call);
    });
  }

  // Waiting -----------------------------------------------------------------------------------------------------------

  /// Whatever ends an operation but its result leaves a communicator that nobody may use.
  template <class Work>
  void guarded(Work const& work) {
    try {
      work();
    } catch (Error const& error) {
      communicator_.abort();
      agreement_.make_unusable(error.code(), error.attempted() + ": " + error.happened());
      throw;
    } catch (...) {
      communicator_.abort();
      throw;
    }
  }

  [[nodiscard]] auto on_rank(std::string const& what) const -> std::string {
    return what + " on rank " + std::to_string(rank_.value);
  }

  /// Asks `done` again and again; `what` is what this rank waits in.
  template <class Done>
  void await(std::string const& what, Done const& done) {
    auto const& limits = group_->options_.limits;
    auto const operation = entered_;
    detail::Backoff backoff;
    for (std::chrono::nanoseconds waited{0};; waited = backoff.pause()) {
      if (group_->aborted_.load()) throw Stopped{};
      if (done()) return;
      if (auto const ended = group_->ended_before(operation)) {
        // It may have been on the way to the end when it was asked, and whoever aborts leaves after that.
        if (group_->aborted_.load()) throw Stopped{};
        if (done()) return;
        throw detail::ended_error({.ended = *ended, .waiting = rank_}, what);
      }
      if (waiting_.is_to_warn(waited) && group_->is_lowest_in(operation, rank_)) {
        waiting_.warn([&] {
          return detail::late_warning({group_->missing_in(operation), limits.warn_after}, rank_, what);
        });
      }
      if (waiting_.is_too_long(waited)) {
        throw detail::late_error({group_->missing_in(operation), limits.timeout}, rank_, what);
      }
    }
  }

  /// Until the device has done what is on the stream.
  void await_stream(Call const& call) {
    auto const attempted = on_rank(to_string(call));
    done_.record(stream().stream);
    // In this order: after an error of NCCL its kernels may never end.
    await(to_string(call), [&] { return communicator_.is_ready(attempted) && done_.is_over(attempted); });
  }

  /// Calls NCCL, and waits until what it does is on the stream.
  template <class Enqueue>
  void enqueue(Call const& call, Enqueue const& enqueue_on) {
    auto const attempted = on_rank(to_string(call));
    detail::check_nccl(enqueue_on(communicator_.get()), attempted);
    await(to_string(call), [&] { return communicator_.is_ready(attempted); });
  }

  /// The same for several calls that wait for each other: `calls(add)`, where `add` takes the result of each.
  template <class Calls>
  void enqueue_together(Call const& call, Calls const& calls) {
    enqueue(call, [&](ncclComm_t) {
      auto worst = ncclGroupStart();
      calls([&](ncclResult_t result) {
        if (worst == ncclSuccess && result != ncclInProgress) worst = result;
      });
      // A group that was begun must be ended, or the thread's next calls belong to it.
      auto const ended = ncclGroupEnd();
      return worst == ncclSuccess ? ended : worst;
    });
  }

  // Agreeing ----------------------------------------------------------------------------------------------------------

  void compare_calls(Call const& call, std::span<std::size_t const> counts) {
    if (group_->aborted_.load()) {
      communicator_.abort();
      throw Stopped{};
    }
    agreement_.check_usable(call, rank_);
    guarded([&] {
      group_->members_[rank_.value].operations.store(++entered_);
      waiting_ = detail::Waiting{group_->options_.limits};
      CallHeader const header{call, group_->stop_requested_.load() ? 1U : 0U, group_->options_.reduction};
      headers_.resize(size().value);
      exchange(call, std::span{&header, 1}, std::span{headers_});
    });
    // In rank order or not, they would wait for each other in different calls of NCCL.
    if (!std::ranges::all_of(headers_, [&](CallHeader const& each) { return each.reduction == headers_[0].reduction; }))
      agreement_.end_by(detail::options_error("NcclGroup", "NcclOptions::reduction"));
    auto const call_of = [&](std::uint32_t rank) -> Call const& { return headers_[rank].call; };
    if (auto const odd = detail::Agreement::first_mismatch(size(), call_of)) {
      agreement_.end_by(detail::Agreement::mismatch({Rank{0}, call_of(0)}, {*odd, call_of(odd->value)}, [&](Rank of) {
        std::vector<std::size_t> mine(size().value);
        std::ranges::copy(counts, mine.begin());
        std::vector<std::size_t> all(mine.size() * mine.size());
        guarded([&] { exchange(call, std::span<std::size_t const>{mine}, std::span{all}); });
        return std::vector(all.begin() + of.value * mine.size(), all.begin() + (of.value + 1) * mine.size());
      }));
    }
    // Not before they agree: a rank that is told of a difference must not stop as if it had been asked to.
    stop_agreed_ =
        stop_agreed_ || std::ranges::any_of(headers_, [](CallHeader const& each) { return each.wants_stop != 0; });
  }

  /// An all_gather of arrays in CPU memory.
  template <class T>
  void exchange(Call const& call, std::span<T const> mine, std::span<T> all) {
    auto* const sent = headers_on_cpu_.at_least(mine.size_bytes() + all.size_bytes());
    auto* const received = sent + mine.size_bytes();
    auto* const gathered = headers_on_device_.at_least(all.size_bytes());
    auto* const own = gathered + rank_.value * mine.size_bytes();
    std::memcpy(sent, mine.data(), mine.size_bytes());
    copy(own, sent, mine.size_bytes());
    enqueue(call, [&](ncclComm_t comm) {
      return ncclAllGather(own, gathered, mine.size_bytes(), ncclUint8, comm, stream().stream);
    });
    copy(received, gathered, all.size_bytes());
    await_stream(call);
    std::memcpy(all.data(), received, all.size_bytes());
  }

  // Working -----------------------------------------------------------------------------------------------------------

  void work(Task const& task) {
    using enum Operation;
    auto const& call = task.call;
    auto const* const from = task.from.data();
    auto* const to = task.to.data();
    auto const bytes = call.count * size_bytes(call.element);
    auto* const queue = stream().stream;
    bool const is_root = rank_ == call.root;
    auto const root = static_cast<int>(call.root.value);
    auto const native = group_->options_.reduction == Reduction::rank_order
                            ? std::nullopt
                            : detail::native_reduction(call.element, call.op);
    // Apart, since g++ warns of values in an optional that it does not see to be set.
    bool const is_native = native.has_value();
    auto const [type, op] = native.value_or(detail::NativeReduction{});
    auto const even = [=](std::uint32_t rank) { return Piece{rank * bytes, bytes}; };
    switch (call.operation) {
      case barrier:
      case duplicate: break;
      case broadcast:
        return enqueue(call,
                       [&](ncclComm_t comm) { return ncclBroadcast(to, to, bytes, ncclUint8, root, comm, queue); });
      case all_gather:
        return enqueue(call, [&](ncclComm_t comm) { return ncclAllGather(from, to, bytes, ncclUint8, comm, queue); });
      case all_gatherv: return gather_pieces(call, {from, to}, pieces_of(task.counts, size_bytes(call.element)));
      case gather:
        if (is_root) copy(to + rank_.value * bytes, from, bytes);
        return collect(call, {from, to}, even);
      case scatter:
        if (is_root) copy(to, from + rank_.value * bytes, bytes);
        return enqueue_together(call, [&](auto const& add) {
          if (!is_root) return add(ncclRecv(to, bytes, ncclUint8, root, communicator_.get(), queue));
          for_others([&](std::uint32_t rank) { add(send(from, even(rank), rank)); });
        });
      case all_reduce:
        if (!is_native) return reduce_in_rank_order(call, from, to);
        enqueue(call, [&](ncclComm_t comm) { return ncclAllReduce(from, to, call.count, type, op, comm, queue); });
        return divide(call, to);
      case reduce:
        if (!is_native) return reduce_in_rank_order(call, from, to);
        enqueue(call, [&](ncclComm_t comm) { return ncclReduce(from, to, call.count, type, op, root, comm, queue); });
        if (is_root) divide(call, to);
        return;
      case reduce_scatter:
        if (!is_native) {
          exchange_pieces(call, from, even);
          return combine(call, bytes, to);
        }
        enqueue(call, [&](ncclComm_t comm) { return ncclReduceScatter(from, to, call.count, type, op, comm, queue); });
        return divide(call, to);
    }
  }

  /// What makes an average of a sum.
  void divide(Call const& call, std::byte* values) {
    if (call.op != ReduceOp::average) return;
    detail::DeviceReduction reduction{
        .element = call.element, .op = call.op, .arrays = 1, .divisor = size().value, .count = call.count};
    reduction.table[0] = values;
    detail::check_cuda(detail::reduce_on_device(reduction, stream().stream), on_rank(to_string(call)));
  }

  /// All_reduce or reduce: each rank gets its piece of everybody's array, combines them, and hands the result on.
  void reduce_in_rank_order(Call const& call, std::byte const* from, std::byte* to) {
    auto const element = size_bytes(call.element);
    // Every piece begins where a GPU can read 16 bytes at once, if the array does.
    auto const size_each = rounded_up((call.count * element + size().value - 1) / size().value);
    auto const piece_of = [&](std::uint32_t rank) {
      auto const begin = std::min(rank * size_each, call.count * element);
      return Piece{begin, std::min(size_each, call.count * element - begin)};
    };
    auto const own = piece_of(rank_.value);
    auto* const pieces = exchange_pieces(call, from, piece_of);
    auto* const result = to != nullptr ? to + own.begin : pieces + rank_.value * rounded_up(own.size);
    combine(call, own.size, result);
    if (call.operation == Operation::reduce) return collect(call, {result, to}, piece_of);
    std::vector<Piece> all;
    for (std::uint32_t rank = 0; rank < size().value; ++rank) all.push_back(piece_of(rank));
    gather_pieces(call, {result, to}, all);
  }

  /// Sends every rank its piece of `from`, and returns where this rank's pieces of all ranks' arrays are: in rank
  /// order, each `rounded_up` bytes after the one before.
  template <class PieceOf>
  auto exchange_pieces(Call const& call, std::byte const* from, PieceOf const& piece_of) -> std::byte* {
    auto const own = piece_of(rank_.value);
    auto const stride = rounded_up(own.size);
    auto* const pieces = reserve(call, rounded_up(piece_of(0).size) * size().value);
    copy(pieces + rank_.value * stride, from + own.begin, own.size);
    enqueue_together(call, [&](auto const& add) {
      for_others([&](std::uint32_t rank) {
        if (piece_of(rank).size > 0) add(send(from, piece_of(rank), rank));
        if (own.size > 0) add(receive(pieces, {rank * stride, own.size}, rank));
      });
    });
    return pieces;
  }

  /// Room for pieces: as much on every rank, so that all grow in the same operation.
  ///
  /// CUDA may wait for every device of the process when it gives memory or takes it back. So no rank goes on to a
  /// kernel that waits for others before all ranks of the process have theirs.
  auto reserve(Call const& call, std::size_t bytes) -> std::byte* {
    if (bytes > reserved_bytes_) {
      (void)pieces_.at_least(bytes);
      reserved_bytes_ = bytes;
      group_->members_[rank_.value].growths.store(++growths_);
      await(to_string(call), [&] { return group_->all_grown(growths_); });
    }
    return pieces_.at_least(bytes);
  }

  /// The pieces that `exchange_pieces` left, each of so many bytes, into one.
  void combine(Call const& call, std::size_t piece_bytes, std::byte* to) {
    if (piece_bytes == 0) return;
    detail::DeviceReduction reduction{.element = call.element,
                                      .op = call.op,
                                      .arrays = size().value,
                                      .divisor = size().value,
                                      .count = piece_bytes / size_bytes(call.element)};
    reduction.target = to;
    reduction.stride_bytes = rounded_up(piece_bytes);
    reduction.table[0] = pieces_.at_least(0);
    detail::check_cuda(detail::reduce_on_device(reduction, stream().stream), on_rank(to_string(call)));
  }

  /// Root gets the other ranks' pieces into their places.
  template <class PieceOf>
  void collect(Call const& call, Way way, PieceOf const& piece_of) {
    enqueue_together(call, [&](auto const& add) {
      if (rank_ == call.root) {
        for_others([&](std::uint32_t rank) {
          if (piece_of(rank).size > 0) add(receive(way.to, piece_of(rank), rank));
        });
      } else if (auto const own = piece_of(rank_.value); own.size > 0) {
        add(send(way.mine, {0, own.size}, call.root.value));
      }
    });
  }

  /// Every rank gets every rank's piece into its place.
  void gather_pieces(Call const& call, Way way, std::span<Piece const> pieces) {
    auto const own = pieces[rank_.value];
    bool const even = std::ranges::all_of(pieces, [&](Piece const& piece) { return piece.size == own.size; });
    if (even) {
      return enqueue(call, [&](ncclComm_t comm) {
        return ncclAllGather(way.mine, way.to, own.size, ncclUint8, comm, stream().stream);
      });
    }
    copy(way.to + own.begin, way.mine, own.size);
    enqueue_together(call, [&](auto const& add) {
      for_others([&](std::uint32_t rank) {
        if (own.size > 0) add(send(way.mine, {0, own.size}, rank));
        if (pieces[rank].size > 0) add(receive(way.to, pieces[rank], rank));
      });
    });
  }

  [[nodiscard]] static auto pieces_of(std::span<std::size_t const> counts, std::size_t element_bytes)
      -> std::vector<Piece> {
    std::vector<Piece> pieces;
    std::size_t begin = 0;
    for (auto const count : counts) {
      pieces.push_back({begin, count * element_bytes});
      begin += count * element_bytes;
    }
    return pieces;
  }

  [[nodiscard]] static constexpr auto rounded_up(std::size_t bytes) noexcept -> std::size_t {
    return (bytes + 15) / 16 * 16;
  }

  template <class Work>
  void for_others(Work const& work) const {
    for (std::uint32_t rank = 0; rank < size().value; ++rank)
      if (rank != rank_.value) work(rank);
  }

  auto send(std::byte const* array, Piece piece, std::uint32_t to) -> ncclResult_t {
    return ncclSend(array + piece.begin, piece.size, ncclUint8, static_cast<int>(to), communicator_.get(),
                    stream().stream);
  }
  auto receive(std::byte* array, Piece piece, std::uint32_t from) -> ncclResult_t {
    return ncclRecv(array + piece.begin, piece.size, ncclUint8, static_cast<int>(from), communicator_.get(),
                    stream().stream);
  }

  void copy(std::byte* to, std::byte const* from, std::size_t bytes) {
    if (to == from || bytes == 0) return;
    detail::check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream().stream), "cudaMemcpyAsync");
  }

  std::shared_ptr<NcclGroup> group_;
  Rank rank_;
  bool stop_agreed_ = false;
  std::uint64_t entered_ = 0;
  detail::Waiting waiting_{group_->options_.limits};  // in the operation that was entered last
  detail::Agreement agreement_;
  std::vector<CallHeader> headers_;
  detail::DeviceEvent done_;
  std::uint64_t growths_ = 0;
  std::size_t reserved_bytes_ = 0;
  detail::PinnedBuffer headers_on_cpu_;
  detail::DeviceBuffer headers_on_device_;
  detail::DeviceBuffer pieces_;
  detail::NcclCommunicator communicator_;  // Last: it ends while the memory is there that it works on.
};

}  // namespace raytrain
