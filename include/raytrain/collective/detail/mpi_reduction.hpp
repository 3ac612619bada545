// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

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

/// What is left to do when MPI has combined the values of all ranks.
inline void conclude_for_all(MpiEndpoint const& mpi, Task const& task) noexcept {
  if (task.call.op == ReduceOp::average) task.reducers->divide(task.to, mpi.size().value);
}

/// By MPI's own operation, in its order. `ranks`: those that take part, of whose arrays each stands for some of all.
inline void all_reduce_in_place(MpiEndpoint& mpi, MPI_Comm ranks, Task const& task) {
  auto const element_bytes = size_bytes(task.call.element);
  for (auto left = task.to; !left.empty();) {
    auto const count = std::min(left.size() / element_bytes, mpi.largest_count());
    mpi.perform("MPI_Iallreduce", count * element_bytes, [&](MPI_Request* request) {
      return MPI_Iallreduce(MPI_IN_PLACE, left.data(), static_cast<int>(count), mpi_combined_type(task.call),
                            mpi_op(task.call.op), ranks, request);
    });
    left = left.subspan(count * element_bytes);
  }
  conclude_for_all(mpi, task);
}

/// The operations that combine the arrays of all ranks. In rank order, each rank gets its slice of all arrays, reduces
/// it, and hands the result around: no more bytes than any other way, and messages to each rank.
class MpiReduction : MpiTransfer {
 public:
  using MpiTransfer::MpiTransfer;

  void all_reduce() const {
    if (is_left_to_mpi()) return all_reduce_in_place(mpi_, mpi_.handle(), task_);
    in_chunks(count_of(task_.to), block_size(), [&](std::size_t begin, std::size_t count) {
      auto* const values = at(task_.to, begin);
      if (is_small(count)) {
        auto* const all = mpi_.scratch(0, count * ranks() * element_bytes_);
        perform("MPI_Iallgather", count * ranks(), [&](MPI_Request* request) {
          return MPI_Iallgather(values, integer(count), type(), all, integer(count), type(), mpi_.handle(), request);
        });
        return reduce_parts(all, count, values);
      }
      reduce_slice(values, count, values);
      auto const& [counts, begins] = slices_of(count);
      perform("MPI_Iallgatherv", count, [&](MPI_Request* request) {
        return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values, counts.data(), begins.data(), type(),
                               mpi_.handle(), request);
      });
    });
  }

  void reduce() const {
    if (is_left_to_mpi()) {
      in_chunks(count_of(task_.from), largest(), [&](std::size_t begin, std::size_t count) {
        void const* const values = is_root() ? MPI_IN_PLACE : at(task_.from, begin);
        void* const result = is_root() ? at(task_.to, begin) : nullptr;
        perform("MPI_Ireduce", count, [&](MPI_Request* request) {
          return MPI_Ireduce(values, result, integer(count), mpi_combined_type(task_.call), mpi_op(task_.call.op),
                             root(), mpi_.handle(), request);
        });
      });
      return conclude_for_all(mpi_, task_);
    }
    in_chunks(count_of(task_.from), block_size(), [&](std::size_t begin, std::size_t count) {
      auto const* const values = at(task_.from, begin);
      auto* const result = is_root() ? at(task_.to, begin) : nullptr;
      if (is_small(count)) {
        auto* const all = mpi_.scratch(0, count * ranks() * element_bytes_);
        perform("MPI_Igather", count * ranks(), [&](MPI_Request* request) {
          return MPI_Igather(values, integer(count), type(), all, integer(count), type(), root(), mpi_.handle(),
                             request);
        });
        if (is_root()) reduce_parts(all, count, result);
        return;
      }
      // Elsewhere than on root, values stay as they are.
      auto* const reduced = is_root() ? result : mpi_.scratch(1, count * element_bytes_);
      reduce_slice(values, count, reduced);
      auto const& [counts, begins] = slices_of(count);
      auto const* const slice = reduced + static_cast<std::size_t>(begins[rank()]) * element_bytes_;
      perform("MPI_Igatherv", count, [&](MPI_Request* request) {
        return MPI_Igatherv(is_root() ? MPI_IN_PLACE : slice, counts[rank()], type(), result, counts.data(),
                            begins.data(), type(), root(), mpi_.handle(), request);
      });
    });
  }

  /// In rank order always: what each rank needs of the others is all that is sent, once.
  void reduce_scatter() const {
    auto const size = task_.call.count;
    auto const part = std::min(largest_part(size), std::max<std::size_t>(block_size() / ranks(), 1));
    in_chunks(size, part, [&](std::size_t begin, std::size_t count) {
      MpiBlockType const blocks{task_.call.element, count, size};
      auto* const all = mpi_.scratch(0, count * ranks() * element_bytes_);
      perform("MPI_Ialltoall", count * ranks(), [&](MPI_Request* request) {
        return MPI_Ialltoall(at(task_.from, begin), blocks.count(), blocks.type(), all, integer(count), type(),
                             mpi_.handle(), request);
      });
      reduce_parts(all, count, at(task_.to, begin));
    });
  }

 private:
  /// Up to here one exchange of everything takes less time than two of slices.
  static constexpr std::size_t small_bytes = std::size_t{32} << 10U;
  /// Bounds the memory that a reduction takes beside the caller's.
  static constexpr std::size_t block_bytes = std::size_t{16} << 20U;
  static constexpr std::size_t slice_bytes = std::size_t{64} << 10U;

  [[nodiscard]] auto is_left_to_mpi() const noexcept -> bool {
    return mpi_combines(task_.call.element, task_.call.op) && !mpi_.combines_in_rank_order();
  }

  [[nodiscard]] auto block_size() const noexcept -> std::size_t {
    return std::min(largest(), std::max(block_bytes, slice_bytes * ranks()) / element_bytes_) / ranks() * ranks();
  }

  [[nodiscard]] auto is_small(std::size_t count) const noexcept -> bool {
    return count * ranks() <= std::min(small_bytes / element_bytes_, largest());
  }

  [[nodiscard]] auto slices_of(std::size_t count) const -> MpiEndpoint::Slices const& {
    auto& slices = mpi_.sent_slices();
    auto const border = [&](std::size_t slice) { return integer(count * slice / ranks()); };
    for (std::size_t slice = 0; slice < ranks(); ++slice) {
      slices.begins[slice] = border(slice);
      slices.counts[slice] = border(slice + 1) - border(slice);
    }
    return slices;
  }

  /// `parts` has one array of `count` elements for each rank.
  void reduce_parts(std::byte const* parts, std::size_t count, std::byte* result) const {
    auto const size = count * element_bytes_;
    auto const part = [&](std::uint32_t from) { return parts + from * size; };
    auto const target = [&](std::uint32_t) { return result; };
    (*task_.reducers)[task_.call.op]({mpi_.size().value, mpi_.rank().value, part}, size, {1, target});
  }

  /// Writes this rank's slice of the reduced `values` to where it is in `result`, which may be the same array.
  void reduce_slice(std::byte const* values, std::size_t count, std::byte* result) const {
    auto const& [counts, begins] = slices_of(count);
    auto const own_count = static_cast<std::size_t>(counts[rank()]);
    auto const own_begin = static_cast<std::size_t>(begins[rank()]);
    auto& received = mpi_.received_slices();
    for (std::size_t from = 0; from < ranks(); ++from) {
      received.counts[from] = counts[rank()];
      received.begins[from] = integer(from * own_count);
    }
    auto* const parts = mpi_.scratch(0, own_count * ranks() * element_bytes_);
    perform("MPI_Ialltoallv", count, [&](MPI_Request* request) {
      return MPI_Ialltoallv(values, counts.data(), begins.data(), type(), parts, received.counts.data(),
                            received.begins.data(), type(), mpi_.handle(), request);
    });
    reduce_parts(parts, own_count, result + own_begin * element_bytes_);
  }
};

}  // namespace raytrain::detail
