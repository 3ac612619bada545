// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <raytrain/collective/detail/mpi_library.hpp>

namespace raytrain::detail {

/// How MPI is to go through an array of one part for each rank of which every part's first `count` elements take part.
/// With less than whole parts, it is told of one element a rank, so that no count goes beyond an `int`.
class MpiBlockType {
 public:
  MpiBlockType(MPI_Datatype element, std::size_t element_bytes, std::size_t count, std::size_t part_size)
      : type_{element}, count_{static_cast<int>(count)}, is_own_{count != part_size} {
    if (!is_own_) return;
    MPI_Datatype block = MPI_DATATYPE_NULL;
    check_mpi(MPI_Type_contiguous(count_, element, &block), "MPI_Type_contiguous");
    check_mpi(MPI_Type_create_resized(block, 0, static_cast<MPI_Aint>(part_size * element_bytes), &type_),
              "MPI_Type_create_resized");
    check_mpi(MPI_Type_free(&block), "MPI_Type_free");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
    count_ = 1;
  }
  MpiBlockType(MpiBlockType const&) = delete;
  auto operator=(MpiBlockType const&) -> MpiBlockType& = delete;
  /// MPI keeps it for as long as something pending needs it.
  ~MpiBlockType() {
    if (is_own_) MPI_Type_free(&type_);
  }

  [[nodiscard]] auto type() const noexcept -> MPI_Datatype { return type_; }
  [[nodiscard]] auto count() const noexcept -> int { return count_; }

 private:
  MPI_Datatype type_;
  int count_;
  bool is_own_;
};

}  // namespace raytrain::detail
