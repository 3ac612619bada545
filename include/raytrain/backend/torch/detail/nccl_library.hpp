// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>

/// NCCL where it is found while the program runs: a LibTorch with CUDA has loaded it. So programs need neither its
/// header nor its library to be built, and run where there is none.
namespace raytrain::detail {

/// NCCL's types and functions, by the binary interface that it keeps since version 2.18.
struct NcclLibrary {
  using Comm = void*;
  struct UniqueId {
    std::array<char, 128> bytes{};
  };
  /// As version 2.18 has it; newer ones take it.
  struct Config {
    static constexpr int undefined = -2147483648;
    std::size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef;
    unsigned version = 21800;
    int blocking = 0;
    int cga_cluster_size = undefined;
    int min_ctas = undefined;
    int max_ctas = undefined;
    char const* net_name = nullptr;
    int split_share = undefined;
  };
  static constexpr int success = 0;
  static constexpr int in_progress = 7;

  int (*get_unique_id)(UniqueId*) = nullptr;
  int (*comm_init_rank_config)(Comm*, int ranks, UniqueId, int rank, Config*) = nullptr;
  int (*comm_get_async_error)(Comm, int*) = nullptr;
  int (*comm_finalize)(Comm) = nullptr;
  int (*comm_destroy)(Comm) = nullptr;
  int (*comm_abort)(Comm) = nullptr;
  char const* (*get_error_string)(int) = nullptr;
  char const* (*get_last_error)(Comm) = nullptr;
  int (*all_reduce)(void const*, void*, std::size_t count, int type, int op, Comm, void* stream) = nullptr;
  int (*reduce)(void const*, void*, std::size_t count, int type, int op, int root, Comm, void* stream) = nullptr;
  int (*reduce_scatter)(void const*, void*, std::size_t count, int type, int op, Comm, void* stream) = nullptr;
  int (*all_gather)(void const*, void*, std::size_t count, int type, Comm, void* stream) = nullptr;
  int (*broadcast)(void const*, void*, std::size_t count, int type, int root, Comm, void* stream) = nullptr;

  /// The one of this process; null where there is none, or an older one.
  [[nodiscard]] static auto of_process() -> NcclLibrary const*;

  /// Every return code passes here. Errors: `backend`, with what NCCL says about its last error.
  void check(int result, std::string const& attempted) const;

  struct Reduction {
    int type;
    int op;
  };
  /// None where its result would differ from what `Collective` promises in more than the order of values. An average is
  /// a sum, to be divided.
  ///
  /// Source: NCCL 2.18 to 2.28, src/device/reduce_kernel.h.
  [[nodiscard]] static auto reduction(ElementType element, ReduceOp op) noexcept -> std::optional<Reduction>;
  static constexpr int bytes = 1;  ///< The type of copies.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/nccl_library-inl.hpp>
#endif
