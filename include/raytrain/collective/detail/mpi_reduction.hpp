// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <raytrain/collective/detail/mpi_endpoint.hpp>
#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/detail/mpi_transfer.hpp>
#include <raytrain/collective/detail/reduce.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>

namespace raytrain::detail {

/// Whether MPI's own operation gives what `ReduceOp` promises. Its minimum and maximum lose a NaN, and it cannot
/// compute with 16-bit floats. MPICH 4.0 compares unsigned integers as if they were signed, Open MPI 4.1.2 the long
/// ones (their issues 6083 and 10525), and with vector instructions Open MPI 4.1 lets sums of short integers stop at
/// the largest number.
[[nodiscard]] constexpr auto mpi_combines(ElementType type, ReduceOp op) noexcept -> bool {
  bool const selects = op == ReduceOp::min || op == ReduceOp::max;
  switch (type) {
    case ElementType::float16:
    case ElementType::bfloat16: return false;
    case ElementType::float32:
    case ElementType::float64: return !selects;
    case ElementType::int8:
    case ElementType::int16: return selects || op == ReduceOp::product;
    case ElementType::int32:
    case ElementType::int64: return true;
    case ElementType::uint8:
    case ElementType::uint16: return op == ReduceOp::product;
    case ElementType::uint32:
    case ElementType::uint64: return !selects;
  }
  return false;
}

[[nodiscard]] inline auto mpi_combined_type(Call const& call) noexcept -> MPI_Datatype {
  bool const selects = call.op == ReduceOp::min || call.op == ReduceOp::max;
  return selects ? mpi_type(call.element) : mpi_wrapping_type(call.element);
}

/// The operations that combine arrays. In rank order, and where they are large, each rank gets its slice of all arrays,
/// reduces it, and hands the result around: no more bytes than any other way, in both directions at the same time, and
/// messages to each rank.
class MpiReduction : MpiTransfer {
 public:
  using MpiTransfer::MpiTransfer;

  void all_reduce() const {
    if (mpi_may_combine() && task_.to.size() < large_slice_bytes * ranks()) return all_reduce_by_mpi();
    in_chunks(count_of(task_.to), block_size(), [&](std::size_t begin, std::size_t count) {
      auto* const values = at(task_.to, begin);
      if (is_small(count)) {
        auto* const all = mpi_.scratch(MpiScratch::parts_of_ranks, count * ranks() * element_bytes_);
        perform("MPI_Iallgather", count * ranks(), [&](MPI_Request* request) {
          return MPI_Iallgather(values, integer(count), type(), all, integer(count), type(), members_.handle, request);
        });
        return reduce_parts(all, count, values);
      }
      reduce_slice(values, count, values);
      auto const slice = [&](std::size_t of) { return slice_of(part_of(task_.to, begin, count), of); };
      exchange([&](std::size_t) { return slice(rank()); }, slice);
    });
  }

  void reduce() const {
    if (mpi_may_combine()) {
      in_chunks(count_of(task_.from), largest(), [&](std::size_t begin, std::size_t count) {
        void const* const values = is_root() ? MPI_IN_PLACE : at(task_.from, begin);
        void* const result = is_root() ? at(task_.to, begin) : nullptr;
        perform("MPI_Ireduce", count, [&](MPI_Request* request) {
          return MPI_Ireduce(values, result, integer(count), mpi_combined_type(task_.call), mpi_op(task_.call.op),
                             root(), members_.handle, request);
        });
      });
      return make_average();
    }
    in_chunks(count_of(task_.from), block_size(), [&](std::size_t begin, std::size_t count) {
      auto const* const values = at(task_.from, begin);
      auto* const result = is_root() ? at(task_.to, begin) : nullptr;
      if (is_small(count)) {
        auto* const all = mpi_.scratch(MpiScratch::parts_of_ranks, count * ranks() * element_bytes_);
        perform("MPI_Igather", count * ranks(), [&](MPI_Request* request) {
          return MPI_Igather(values, integer(count), type(), all, integer(count), type(), root(), members_.handle,
                             request);
        });
        if (is_root()) reduce_parts(all, count, result);
        return;
      }
      // Elsewhere than on root, values stay as they are.
      auto* const reduced = is_root() ? result : mpi_.scratch(MpiScratch::reduced, count * element_bytes_);
      reduce_slice(values, count, reduced);
      std::span const all{reduced, count * element_bytes_};
      std::span<std::byte> const nothing;
      exchange([&](std::size_t to) { return to == task_.call.root.value ? slice_of(all, rank()) : nothing; },
               [&](std::size_t from) { return is_root() ? slice_of(all, from) : nothing; });
    });
  }

  /// In rank order always: what each rank needs of the others is all that is sent, once.
  void reduce_scatter() const {
    auto const size = task_.call.count;
    in_chunks(size, block_size() / ranks(), [&](std::size_t begin, std::size_t count) {
      auto* const others = mpi_.scratch(MpiScratch::parts_of_ranks, count * ranks() * element_bytes_);
      auto const received = [&](std::size_t from) {
        return part_of(std::span{others, count * ranks() * element_bytes_}, from * count, count);
      };
      exchange([&](std::size_t to) { return part_of(task_.from, to * size + begin, count); }, received);
      auto const* const own = at(task_.from, rank() * size + begin);
      combine([&](std::uint32_t from) { return from == rank() ? own : received(from).data(); }, count * element_bytes_,
              at(task_.to, begin));
    });
  }

 private:
  /// Arrays of which each rank has as large a slice go in slices, also where MPI may combine them.
  static constexpr std::size_t large_slice_bytes = std::size_t{32} << 10U;
  /// Up to here, all ranks' arrays together, one exchange of everything takes less time than two of slices.
  static constexpr std::size_t small_bytes = std::size_t{32} << 10U;
  /// Bounds the memory that a reduction takes beside the caller's, but that each rank's slice may have `slice_bytes`.
  static constexpr std::size_t block_bytes = std::size_t{16} << 20U;
  static constexpr std::size_t slice_bytes = std::size_t{64} << 10U;

  [[nodiscard]] auto mpi_may_combine() const noexcept -> bool {
    return mpi_combines(task_.call.element, task_.call.op) && !mpi_.combines_in_rank_order();
  }

  /// In MPI's order. Not for large arrays: Open MPI sends one to one rank and back, so that the network is used one way
  /// at a time.
  void all_reduce_by_mpi() const {
    in_chunks(count_of(task_.to), largest(), [&](std::size_t begin, std::size_t count) {
      perform("MPI_Iallreduce", count, [&](MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, at(task_.to, begin), integer(count), mpi_combined_type(task_.call),
                              mpi_op(task_.call.op), members_.handle, request);
      });
    });
    make_average();
  }

  /// What is left to do when MPI has combined the values of all ranks.
  void make_average() const noexcept {
    if (task_.call.op == ReduceOp::average) task_.reducers->divide(task_.to, static_cast<std::uint32_t>(ranks()));
  }

  /// Elements of a block: a multiple of the number of ranks, and no more than one call of MPI takes.
  [[nodiscard]] auto block_size() const noexcept -> std::size_t {
    return std::min(largest(), std::max(block_bytes, slice_bytes * ranks()) / element_bytes_) / ranks() * ranks();
  }

  [[nodiscard]] auto is_small(std::size_t count) const noexcept -> bool {
    return count * ranks() <= std::min(small_bytes / element_bytes_, largest());
  }

  /// Of an array that is divided between all ranks, the part of this one.
  template <class Byte>
  [[nodiscard]] auto slice_of(std::span<Byte> array, std::size_t rank) const noexcept -> std::span<Byte> {
    auto const border = [&](std::size_t slice) { return count_of(array) * slice / ranks(); };
    return part_of(array, border(rank), border(rank + 1) - border(rank));
  }

  /// `parts` has one array of `count` elements for each rank.
  void reduce_parts(std::byte const* parts, std::size_t count, std::byte* result) const {
    auto const size = count * element_bytes_;
    combine([&](std::uint32_t from) { return parts + from * size; }, size, result);
  }

  /// The arrays `part(0)`, `part(1)` ... of all ranks.
  template <class Part>
  void combine(Part const& part, std::size_t size_bytes, std::byte* result) const {
    auto const number = [](std::size_t of) { return static_cast<std::uint32_t>(of); };
    auto const target = [&](std::uint32_t) { return result; };
    (*task_.reducers)[task_.call.op]({number(ranks()), number(rank()), part}, size_bytes, {1, target});
  }

  /// Writes this rank's slice of the reduced `values` to where it is in `result`, which may be the same array.
  void reduce_slice(std::byte const* values, std::size_t count, std::byte* result) const {
    std::span const array{values, count * element_bytes_};
    auto const own = slice_of(array, rank());
    auto* const parts = mpi_.scratch(MpiScratch::parts_of_ranks, own.size() * ranks());
    auto const received = [&](std::size_t from) { return std::span{parts + from * own.size(), own.size()}; };
    exchange([&](std::size_t to) { return slice_of(array, to); }, received);
    combine([&](std::uint32_t from) { return from == rank() ? own.data() : received(from).data(); }, own.size(),
            result + (own.data() - values));
  }
};

}  // namespace raytrain::detail
