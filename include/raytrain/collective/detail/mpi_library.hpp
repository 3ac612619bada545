// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <raytrain/collective/detail/agreement.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/core/error.hpp>

// MPI's own C++ bindings have left its standard, and take ten times as long to read as the rest.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1  // NOLINT(readability-identifier-naming)
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1  // NOLINT(readability-identifier-naming)
#endif
#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// A rank of the job is lost, and the job goes on without it: what is asked of MPI cannot be done.
struct RankIsLost : Error {
  explicit RankIsLost(Error error) : Error{std::move(error)} {}
};

[[nodiscard]] constexpr auto says_that_rank_is_lost([[maybe_unused]] int code) noexcept -> bool {
#ifdef MPIX_ERR_PROC_FAILED
  return code == MPIX_ERR_PROC_FAILED || code == MPIX_ERR_PROC_FAILED_PENDING || code == MPIX_ERR_REVOKED;
#else
  return false;
#endif
}

/// Every code that a function of MPI returns comes by here.
///
/// Errors: `backend` with MPI's own text, unless the code is a success; as `RankIsLost` where that is why.
inline void check_mpi(int code, char const* function) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  bool const known = MPI_Error_string(code, text, &length) == MPI_SUCCESS;
  Error error{Errc::backend, function,
              known ? std::string{text, static_cast<std::size_t>(length)} : "unknown error " + std::to_string(code),
              "read what mpirun and the other ranks say, since one of them may have failed first"};
  if (says_that_rank_is_lost(code)) throw RankIsLost{std::move(error)};
  throw error;
}

[[nodiscard]] constexpr auto thread_level_name(int level) noexcept -> std::string_view {
  switch (level) {
    case MPI_THREAD_SINGLE: return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_MULTIPLE: return "MPI_THREAD_MULTIPLE";
    default: return "an unknown thread level";
  }
}

/// Errors: `invalid_call` where MPI was initialised for one thread at a time.
inline void check_several_threads() {
  int level = 0;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level == MPI_THREAD_MULTIPLE) return;
  throw Error{Errc::invalid_call, "duplicate() of an MpiCollective",
              "needs MPI_THREAD_MULTIPLE, since another thread of the worker uses MPI beside it (MPI was initialised "
              "with " +
                  std::string{thread_level_name(level)} + ")",
              "initialise it by raytrain::MpiSession or MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided)"};
}

/// What carries elements of a type; those of 16-bit floats as plain bits, since MPI cannot compute with them.
[[nodiscard]] inline auto mpi_type(ElementType type) noexcept -> MPI_Datatype {
  switch (type) {
    case ElementType::float32: return MPI_FLOAT;
    case ElementType::float64: return MPI_DOUBLE;
    case ElementType::int8: return MPI_INT8_T;
    case ElementType::int16: return MPI_INT16_T;
    case ElementType::int32: return MPI_INT32_T;
    case ElementType::int64: return MPI_INT64_T;
    case ElementType::uint8: return MPI_UINT8_T;
    case ElementType::uint16: return MPI_UINT16_T;
    case ElementType::uint32: return MPI_UINT32_T;
    case ElementType::uint64: return MPI_UINT64_T;
    case ElementType::float16: return MPI_UINT16_T;
    case ElementType::bfloat16: return MPI_UINT16_T;
  }
  return MPI_DATATYPE_NULL;
}

/// The same for a sum or a product, which wraps around: of signed numbers only in their unsigned twins.
[[nodiscard]] inline auto mpi_wrapping_type(ElementType type) noexcept -> MPI_Datatype {
  switch (type) {
    case ElementType::int8: return MPI_UINT8_T;
    case ElementType::int16: return MPI_UINT16_T;
    case ElementType::int32: return MPI_UINT32_T;
    case ElementType::int64: return MPI_UINT64_T;
    default: return mpi_type(type);
  }
}

/// The operation of MPI that combines as `op` does; what follows at the end, as the division of an average, is not in
/// it.
[[nodiscard]] inline auto mpi_op(ReduceOp op) noexcept -> MPI_Op {
  switch (op) {
    case ReduceOp::sum: return MPI_SUM;
    case ReduceOp::average: return MPI_SUM;
    case ReduceOp::min: return MPI_MIN;
    case ReduceOp::max: return MPI_MAX;
    case ReduceOp::product: return MPI_PROD;
  }
  return MPI_OP_NULL;
}

}  // namespace raytrain::detail

/// User-Level Failure Mitigation (ULFM): what MPI offers to the ranks that are left when one is lost. Open MPI has it
/// since version 5, in jobs that `mpirun --with-ft ulfm` has started.
namespace raytrain::detail {

/// Whether the job goes on when a rank is lost. MPI must be in use at the first call.
[[nodiscard]] inline auto mpi_survives_losses() -> bool {
#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI
  static bool const does = [] {
    void* value = nullptr;
    int found = 0;
    check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_FT, static_cast<void*>(&value), &found), "MPI_Comm_get_attr");
    return found != 0 && *static_cast<int const*>(value) != 0;
  }();
  return does;
#else
  return false;
#endif
}

/// Ends what is pending in a communicator, on all its ranks: it fails by `RankIsLost`, and so does all that follows.
inline void mpi_revoke([[maybe_unused]] MPI_Comm communicator) noexcept {
#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI
  if (communicator != MPI_COMM_NULL) MPIX_Comm_revoke(communicator);
#endif
}

/// Takes out the requests that are over, be it by an error, and says whether these were all.
[[nodiscard]] inline auto mpi_forget_ended(std::vector<MPI_Request>& requests) noexcept -> bool {
  for (auto& request : requests) {
    int over = 0;
    MPI_Test(&request, &over, MPI_STATUS_IGNORE);  // makes it null then
  }
  std::erase(requests, MPI_REQUEST_NULL);
  return requests.empty();
}

/// The ranks of a communicator that are left, in their order. All of them call it, and wait for each other. It blocks
/// for ever if one does not call it and MPI does not know that it has failed.
///
/// Errors: `backend`.
[[nodiscard]] inline auto mpi_shrink([[maybe_unused]] MPI_Comm communicator) -> MPI_Comm {
#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI
  MPI_Comm left = MPI_COMM_NULL;
  check_mpi(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPIX_Comm_shrink(communicator, &left), "MPIX_Comm_shrink");
  return left;
#else
  throw Error{Errc::backend, "going on without a rank that is lost", "this program was built with an MPI that cannot",
              "build it with Open MPI 5 or later"};
#endif
}

/// A communicator that raytrain has made, or none, and frees. Where the job survives losses it stays until the process
/// ends: MPI would wait for ranks that may be lost.
///
/// Threads: where MPI may be used; `abandon` from any.
class MpiHandle {
 public:
  MpiHandle() = default;
  MpiHandle(MpiHandle const&) = delete;
  auto operator=(MpiHandle const&) -> MpiHandle& = delete;
  ~MpiHandle() {
    int finalized = 1;
    if (communicator_ == MPI_COMM_NULL || abandoned_) return;
    if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0 || mpi_survives_losses()) return;
    MPI_Comm_free(&communicator_);
  }

  [[nodiscard]] auto get() const noexcept -> MPI_Comm { return communicator_; }
  /// To fill it, once.
  [[nodiscard]] auto put() noexcept -> MPI_Comm* { return &communicator_; }

  /// Leaves it to the end of the process: something may be pending in it that cannot be taken back.
  void abandon() noexcept { abandoned_ = true; }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::atomic<bool> abandoned_ = false;
};

/// What the ranks tell each other before an operation when calls are checked.
struct MpiCallHeader {
  Call call{};
  std::uint64_t stop = 0;
};

/// For what an operation needs memory beside the caller's arrays.
enum class MpiScratch : std::uint8_t { parts_of_ranks, reduced };

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
