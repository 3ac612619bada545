// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <raytrain/collective/detail/agreement.hpp>
#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/detail/task.hpp>

namespace raytrain::detail {

/// What the ranks tell each other before an operation when calls are checked.
struct MpiCallHeader {
  Call call{};
  std::uint64_t stop = 0;
};

/// What MPI reads and writes by itself while an operation is pending.
struct MpiBuffers {
  std::array<std::vector<std::byte>, 2> scratch;
  std::array<std::int64_t, 4> agreement{};
  std::vector<CallHistory> histories;
  std::vector<MpiCallHeader> headers;
  std::vector<MPI_Request> requests;
  std::vector<std::size_t> sent_counts;

  /// For those of an operation that cannot be taken back.
  static void keep_for_ever(std::unique_ptr<MpiBuffers> buffers) noexcept {
    static std::mutex mutex;
    // Never destroyed, so that it outlives whatever ends MPI.
    static auto& kept = *new std::vector<std::unique_ptr<MpiBuffers>>;
    std::scoped_lock const lock{mutex};
    kept.push_back(std::move(buffers));
  }
};

}  // namespace raytrain::detail
