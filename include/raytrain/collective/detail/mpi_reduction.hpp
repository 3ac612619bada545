// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <raytrain/collective/detail/mpi_block_type.hpp>
#include <raytrain/collective/detail/mpi_endpoint.hpp>
#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/detail/mpi_transfer.hpp>
#include <raytrain/collective/detail/operations.hpp>
#include <raytrain/collective/detail/reduce.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>

namespace raytrain::detail {

/// Whether MPI's own operation gives what `ReduceOp` promises. Its minimum and maximum lose a NaN, and it cannot
/// compute with 16-bit floats. MPICH 4.0 compares unsigned integers as if they were signed, Open MPI 4.1.2 the long
/// ones (their issues 6083 and 10525), and with vector instructions Open MPI 4.1 lets sums of short integers stop at
/// the largest number.
template <ReduceOp op, Element T>
inline constexpr bool mpi_combines = [] {
  bool const selects = op == ReduceOp::min || op == ReduceOp::max;
  if constexpr (std::integral<T>) {
    if (selects) return std::signed_integral<T>;
    return op == ReduceOp::product || sizeof(T) >= sizeof(std::int32_t);
  }
  return std::floating_point<T> && !selects;
}();

template <ReduceOp op, Element T>
[[nodiscard]] auto mpi_combined_type() noexcept -> MPI_Datatype {
  return op == ReduceOp::min || op == ReduceOp::max ? mpi_type(element_type<T>) : mpi_wrapping_type(element_type<T>);
}

/// What is left to do when MPI has combined the values of all ranks.
template <ReduceOp op, Element T>
void conclude_for_all(MpiEndpoint const& mpi, std::span<T> values) noexcept {
  if constexpr (op == ReduceOp::average) {
    for (auto& value : values) value = conclude<op>(value, mpi.size().value);
  }
}

/// By MPI's own operation, in its order. `ranks`: those that take part, of whose arrays each stands for some of all.
template <ReduceOp op, Element T>
void all_reduce_in_place(MpiEndpoint& mpi, MPI_Comm ranks, std::span<T> values) {
  for (auto left = values; !left.empty();) {
    auto const chunk = left.first(std::min(left.size(), mpi.largest_count()));
    mpi.perform("MPI_Iallreduce", chunk.size_bytes(), [&](MPI_Request* request) {
      return MPI_Iallreduce(MPI_IN_PLACE, chunk.data(), static_cast<int>(chunk.size()), mpi_combined_type<op, T>(),
                            mpi_op(op), ranks, request);
    });
    left = left.subspan(chunk.size());
  }
  conclude_for_all<op>(mpi, values);
}

/// The operations that combine the arrays of all ranks. In rank order, each rank gets its slice of all arrays, reduces
/// it, and hands the result around: no more bytes than any other way, and messages to each rank.
template <ReduceOp op, Element T>
class MpiReduction : MpiTransfer<T> {
 public:
  using MpiTransfer<T>::MpiTransfer;

  void all_reduce() const {
    if constexpr (mpi_combines<op, T>) {
      if (is_left_to_mpi()) return all_reduce_in_place<op>(mpi_, mpi_.handle(), task_.to);
    }
    in_chunks(task_.to.size(), block_size(), [&](std::size_t begin, std::size_t count) {
      auto const values = task_.to.subspan(begin, count);
      if (is_small(count)) {
        auto* const all = mpi_.template scratch<T>(count * ranks());
        perform("MPI_Iallgather", count * ranks(), [&](MPI_Request* request) {
          return MPI_Iallgather(values.data(), integer(count), type(), all, integer(count), type(), mpi_.handle(),
                                request);
        });
        return reduce_parts(all, values);
      }
      reduce_slice(values.data(), count, values.data());
      auto const& [counts, begins] = slices_of(count);
      perform("MPI_Iallgatherv", count, [&](MPI_Request* request) {
        return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values.data(), counts.data(), begins.data(), type(),
                               mpi_.handle(), request);
      });
    });
  }

  void reduce() const {
    if (is_left_to_mpi()) {
      in_chunks(task_.from.size(), largest(), [&](std::size_t begin, std::size_t count) {
        void const* const values = is_root() ? MPI_IN_PLACE : task_.from.data() + begin;
        T* const result = is_root() ? task_.to.data() + begin : nullptr;
        perform("MPI_Ireduce", count, [&](MPI_Request* request) {
          return MPI_Ireduce(values, result, integer(count), (mpi_combined_type<op, T>()), mpi_op(op), root(),
                             mpi_.handle(), request);
        });
      });
      if constexpr (mpi_combines<op, T>) conclude_for_all<op>(mpi_, task_.to);
      return;
    }
    in_chunks(task_.from.size(), block_size(), [&](std::size_t begin, std::size_t count) {
      T const* const values = task_.from.data() + begin;
      auto const result = is_root() ? task_.to.subspan(begin, count) : std::span<T>{};
      if (is_small(count)) {
        auto* const all = mpi_.template scratch<T>(count * ranks());
        perform("MPI_Igather", count * ranks(), [&](MPI_Request* request) {
          return MPI_Igather(values, integer(count), type(), all, integer(count), type(), root(), mpi_.handle(),
                             request);
        });
        return reduce_parts(all, result);
      }
      // Elsewhere than on root, values stay as they are.
      T* const reduced = is_root() ? result.data() : mpi_.template scratch<T, 1>(count);
      reduce_slice(values, count, reduced);
      auto const& [counts, begins] = slices_of(count);
      T const* const slice = reduced + begins[rank()];
      perform("MPI_Igatherv", count, [&](MPI_Request* request) {
        return MPI_Igatherv(is_root() ? MPI_IN_PLACE : slice, counts[rank()], type(), result.data(), counts.data(),
                            begins.data(), type(), root(), mpi_.handle(), request);
      });
    });
  }

  /// In rank order always: what each rank needs of the others is all that is sent, once.
  void reduce_scatter() const {
    auto const size = task_.call.count;
    auto const part = std::min(largest_part(size), std::max<std::size_t>(block_size() / ranks(), 1));
    in_chunks(size, part, [&](std::size_t begin, std::size_t count) {
      MpiBlockType const blocks{type(), sizeof(T), count, size};
      auto* const all = mpi_.template scratch<T>(count * ranks());
      perform("MPI_Ialltoall", count * ranks(), [&](MPI_Request* request) {
        return MPI_Ialltoall(task_.from.data() + begin, blocks.count(), blocks.type(), all, integer(count), type(),
                             mpi_.handle(), request);
      });
      reduce_parts(all, task_.to.subspan(begin, count));
    });
  }

 private:
  using Base = MpiTransfer<T>;
  using Base::in_chunks;
  using Base::integer;
  using Base::is_root;
  using Base::largest;
  using Base::largest_part;
  using Base::mpi_;
  using Base::perform;
  using Base::rank;
  using Base::ranks;
  using Base::root;
  using Base::task_;
  using Base::type;

  /// Up to here one exchange of everything takes less time than two of slices.
  static constexpr std::size_t small_bytes = std::size_t{32} << 10U;
  /// Bounds the memory that a reduction takes beside the caller's.
  static constexpr std::size_t block_bytes = std::size_t{16} << 20U;
  static constexpr std::size_t slice_bytes = std::size_t{64} << 10U;

  [[nodiscard]] auto is_left_to_mpi() const noexcept -> bool {
    return mpi_combines<op, T> && !mpi_.combines_in_rank_order();
  }

  [[nodiscard]] auto block_size() const noexcept -> std::size_t {
    return std::min(largest(), std::max(block_bytes, slice_bytes * ranks()) / sizeof(T)) / ranks() * ranks();
  }

  [[nodiscard]] auto is_small(std::size_t count) const noexcept -> bool {
    return count * ranks() <= std::min(small_bytes / sizeof(T), largest());
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

  /// `parts` has one array of `result.size()` elements for each rank.
  void reduce_parts(T const* parts, std::span<T> result) const {
    reduce_blocks<op, T>(
        mpi_.size().value, result.size(), [&](std::uint32_t from) { return parts + from * result.size(); },
        [&](std::size_t at, T const* block, std::size_t bytes) { std::memcpy(result.data() + at, block, bytes); });
  }

  /// Writes this rank's slice of the reduced `values` to where it is in `result`, which may be the same array.
  void reduce_slice(T const* values, std::size_t count, T* result) const {
    auto const& [counts, begins] = slices_of(count);
    auto const own_count = static_cast<std::size_t>(counts[rank()]);
    auto const own_begin = begins[rank()];
    auto& received = mpi_.received_slices();
    for (std::size_t from = 0; from < ranks(); ++from) {
      received.counts[from] = counts[rank()];
      received.begins[from] = integer(from * own_count);
    }
    auto* const parts = mpi_.template scratch<T>(own_count * ranks());
    perform("MPI_Ialltoallv", count, [&](MPI_Request* request) {
      return MPI_Ialltoallv(values, counts.data(), begins.data(), type(), parts, received.counts.data(),
                            received.begins.data(), type(), mpi_.handle(), request);
    });
    reduce_parts(parts, {result + own_begin, own_count});
  }
};

}  // namespace raytrain::detail
