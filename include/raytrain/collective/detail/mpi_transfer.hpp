// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <raytrain/collective/detail/mpi_endpoint.hpp>
#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/core/element_type.hpp>

namespace raytrain::detail {

/// How MPI is to go through an array of one part for each rank of which every part's first `count` elements take part.
/// With less than whole parts, it is told of one element a rank, so that no count goes beyond an `int`.
class MpiBlockType {
 public:
  /// Of each rank's part, in elements.
  struct Part {
    std::size_t count;  ///< That take part.
    std::size_t size;
  };

  MpiBlockType(ElementType element, Part part)
      : type_{mpi_type(element)}, count_{static_cast<int>(part.count)}, is_own_{part.count != part.size} {
    if (!is_own_) return;
    MPI_Datatype block = MPI_DATATYPE_NULL;
    check_mpi(MPI_Type_contiguous(count_, type_, &block), "MPI_Type_contiguous");
    check_mpi(MPI_Type_create_resized(block, 0, static_cast<MPI_Aint>(part.size * size_bytes(element)), &type_),
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

/// The operations that move arrays and combine none, between `members`.
class MpiTransfer {
 public:
  MpiTransfer(MpiEndpoint& mpi, MpiMembers members, Task const& task) noexcept
      : mpi_{mpi}, members_{members}, task_{task} {}

  void broadcast() const {
    in_chunks(count_of(task_.to), largest(), [&](std::size_t begin, std::size_t count) {
      perform("MPI_Ibcast", count, [&](MPI_Request* request) {
        return MPI_Ibcast(at(task_.to, begin), integer(count), type(), root(), members_.handle, request);
      });
    });
  }

  void all_gather() const {
    auto const size = task_.call.count;
    exchange_parts(size, [&](std::size_t of) { return part_of(task_.to, of * size, size); });
  }

  void gather() const {
    auto const size = task_.call.count;
    bool const in_place = is_root() && task_.from.data() == at(task_.to, rank() * size);
    in_chunks(size, largest_part(size), [&](std::size_t begin, std::size_t count) {
      MpiBlockType const blocks{task_.call.element, {.count = count, .size = size}};
      void const* const mine = in_place ? MPI_IN_PLACE : at(task_.from, begin);
      std::byte* const all = is_root() ? at(task_.to, begin) : nullptr;
      perform("MPI_Igather", count * ranks(), [&](MPI_Request* request) {
        return MPI_Igather(mine, integer(count), type(), all, blocks.count(), blocks.type(), root(), members_.handle,
                           request);
      });
    });
  }

  void scatter() const {
    auto const size = task_.call.count;
    bool const in_place = is_root() && task_.to.data() == at(task_.from, rank() * size);
    in_chunks(size, largest_part(size), [&](std::size_t begin, std::size_t count) {
      MpiBlockType const blocks{task_.call.element, {.count = count, .size = size}};
      std::byte const* const all = is_root() ? at(task_.from, begin) : nullptr;
      void* const mine = in_place ? MPI_IN_PLACE : at(task_.to, begin);
      perform("MPI_Iscatter", count * ranks(), [&](MPI_Request* request) {
        return MPI_Iscatter(all, blocks.count(), blocks.type(), mine, integer(count), type(), root(), members_.handle,
                            request);
      });
    });
  }

  void all_gatherv() const {
    std::vector<std::size_t> begins{0};
    for (auto const count : task_.counts) begins.push_back(begins.back() + count);
    exchange_parts(std::ranges::max(task_.counts),
                   [&](std::size_t of) { return part_of(task_.to, begins[of], task_.counts[of]); });
  }

 protected:
  [[nodiscard]] auto type() const noexcept -> MPI_Datatype { return mpi_type(task_.call.element); }

  // What follows counts elements.

  [[nodiscard]] auto count_of(std::span<std::byte const> array) const noexcept -> std::size_t {
    return array.size() / element_bytes_;
  }
  template <class Byte>
  [[nodiscard]] auto at(std::span<Byte> array, std::size_t begin) const noexcept -> Byte* {
    return array.data() + begin * element_bytes_;
  }

  template <class Byte>
  [[nodiscard]] auto part_of(std::span<Byte> array, std::size_t begin, std::size_t count) const noexcept
      -> std::span<Byte> {
    return array.subspan(begin * element_bytes_, count * element_bytes_);
  }

  [[nodiscard]] auto rank() const noexcept -> std::size_t { return members_.rank; }
  [[nodiscard]] auto ranks() const noexcept -> std::size_t { return members_.size; }
  [[nodiscard]] auto root() const noexcept -> int { return static_cast<int>(task_.call.root.value); }
  [[nodiscard]] auto is_root() const noexcept -> bool { return members_.rank == task_.call.root.value; }
  [[nodiscard]] auto largest() const noexcept -> std::size_t { return mpi_.largest_count(); }

  /// How many elements of each rank's part, which has `size`, go into one call of MPI.
  [[nodiscard]] auto largest_part(std::size_t size) const noexcept -> std::size_t {
    return size <= largest() / ranks() ? size : std::max<std::size_t>(largest() / ranks(), 1);
  }

  static auto integer(std::size_t count) noexcept -> int { return static_cast<int>(count); }

  template <class Step>
  static void in_chunks(std::size_t size, std::size_t chunk, Step const& step) {
    for (std::size_t begin = 0; begin < size; begin += chunk) step(begin, std::min(chunk, size - begin));
  }

  /// Sends `sent(other)` to each other member, and receives `received(other)` from it. Both sides know the size of what
  /// goes from one to the other; where it is empty there is no message. What is sent is announced first: over TCP, the
  /// answer to an announcement that came later would wait behind this member's own data, and the network carry one
  /// direction at a time.
  template <class Sent, class Received>
  void exchange(Sent const& sent, Received const& received) const {
    std::size_t bytes = 0;
    auto const with_others = [&](char const* function, auto const& array_of, auto const& start) {
      for (std::size_t step = 1; step < ranks(); ++step) {
        auto const other = (rank() + step) % ranks();
        auto const array = array_of(other);
        bytes += array.size();
        if (!array.empty()) check_mpi(start(array, integer(other), &mpi_.new_request()), function);
      }
    };
    auto const tag = mpi_.tag_of_operation();
    with_others("MPI_Isend", sent, [&](std::span<std::byte const> array, int to, MPI_Request* request) {
      return MPI_Isend(array.data(), integer(count_of(array)), type(), to, tag, members_.handle, request);
    });
    with_others("MPI_Irecv", received, [&](std::span<std::byte> array, int from, MPI_Request* request) {
      return MPI_Irecv(array.data(), integer(count_of(array)), type(), from, tag, members_.handle, request);
    });
    mpi_.wait_for_requests(bytes);
  }

  template <class Start>
  void perform(char const* function, std::size_t elements, Start const& start) const {
    mpi_.perform(function, elements * element_bytes_, start);
  }

  MpiEndpoint& mpi_;
  MpiMembers members_;
  Task const& task_;
  std::size_t element_bytes_ = size_bytes(task_.call.element);

 private:
  /// Hands each member's part of the result around: `part(of)`, of `largest_part` elements at most.
  template <class Part>
  void exchange_parts(std::size_t largest_part, Part const& part) const {
    std::span<std::byte> const own = part(rank());
    if (own.data() != task_.from.data() && !own.empty()) std::memcpy(own.data(), task_.from.data(), own.size());
    in_chunks(largest_part, largest(), [&](std::size_t begin, std::size_t count) {
      auto const piece = [&](std::size_t of) {
        std::span<std::byte> const whole = part(of);
        auto const first = std::min(begin, count_of(whole));
        return part_of(whole, first, std::min(count, count_of(whole) - first));
      };
      exchange([&](std::size_t) { return piece(rank()); }, piece);
    });
  }
};

}  // namespace raytrain::detail
