// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <optional>
#include <string>
#include <type_traits>

#include <raytrain/backend/torch/detail/nccl_library.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE auto load_nccl() -> std::optional<NcclLibrary> {
  // The one that is loaded, by LibTorch or the program, before one that is only installed.
  auto* const loaded = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
  auto* const library = loaded != nullptr                                 ? loaded
                        : dlsym(RTLD_DEFAULT, "ncclAllReduce") != nullptr ? RTLD_DEFAULT
                                                                          : dlopen("libnccl.so.2", RTLD_LAZY);
  if (library == nullptr && loaded != nullptr) return std::nullopt;
  NcclLibrary found;
  auto is_complete = true;
  auto const find = [&](auto& function, char const* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    is_complete = is_complete && function != nullptr;
  };
  find(found.get_unique_id, "ncclGetUniqueId");
  find(found.comm_init_rank_config, "ncclCommInitRankConfig");
  find(found.comm_get_async_error, "ncclCommGetAsyncError");
  find(found.comm_finalize, "ncclCommFinalize");
  find(found.comm_destroy, "ncclCommDestroy");
  find(found.comm_abort, "ncclCommAbort");
  find(found.get_error_string, "ncclGetErrorString");
  find(found.get_last_error, "ncclGetLastError");
  find(found.all_reduce, "ncclAllReduce");
  find(found.reduce, "ncclReduce");
  find(found.reduce_scatter, "ncclReduceScatter");
  find(found.all_gather, "ncclAllGather");
  find(found.broadcast, "ncclBroadcast");
  int (*get_version)(int*) = nullptr;
  find(get_version, "ncclGetVersion");
  constexpr int oldest = 21'800;
  int version = 0;
  if (!is_complete || get_version(&version) != NcclLibrary::success || version < oldest) return std::nullopt;
  return found;
}

RAYTRAIN_TORCH_INLINE auto NcclLibrary::of_process() -> NcclLibrary const* {
  static auto const library = load_nccl();
  return library ? &*library : nullptr;
}

RAYTRAIN_TORCH_INLINE void NcclLibrary::check(int result, std::string const& attempted) const {
  if (result == success || result == in_progress) return;
  std::string happened = get_error_string(result);
  auto const* const last = get_last_error(nullptr);
  if (last != nullptr && *last != '\0') happened += std::string{": "} + last;
  throw Error{Errc::backend, attempted, happened,
              "look at what ended another rank; NCCL_DEBUG=WARN shows what NCCL found, and "
              "TorchConfig::gpu_exchange = GpuExchange::cpu does without it"};
}

RAYTRAIN_TORCH_INLINE auto NcclLibrary::reduction(ElementType element, ReduceOp op) noexcept
    -> std::optional<Reduction> {
  auto const picks = op == ReduceOp::min || op == ReduceOp::max;
  auto const native = op == ReduceOp::product ? 1 : op == ReduceOp::max ? 2 : op == ReduceOp::min ? 3 : 0;
  auto const of_type = [&](int type) { return std::optional{Reduction{type, native}}; };
  switch (element) {
    // Its min and max of a number and a NaN are the number.
    case ElementType::float32: return picks ? std::nullopt : of_type(7);
    case ElementType::float64: return picks ? std::nullopt : of_type(8);
    case ElementType::int8: return of_type(0);
    case ElementType::uint8: return of_type(1);
    case ElementType::int32: return of_type(2);
    case ElementType::uint32: return of_type(3);
    case ElementType::int64: return of_type(4);
    case ElementType::uint64: return of_type(5);
    // It rounds to 16 bits after each rank, and has no integers of 16 bits.
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::int16:
    case ElementType::uint16: break;
  }
  return std::nullopt;
}

}  // namespace raytrain::detail
