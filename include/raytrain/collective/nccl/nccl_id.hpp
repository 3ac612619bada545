// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <raytrain/collective/nccl/nccl_error.hpp>

namespace raytrain {

/// What the ranks of one NCCL world have in common. One rank creates it and hands its bytes to the others by any means:
///
///   NcclId id;
///   if (rank == Rank{0}) id = NcclId::create();
///   collective.broadcast(id.bytes(), Rank{0});
class NcclId {
 public:
  static constexpr std::size_t size_bytes = NCCL_UNIQUE_ID_BYTES;

  /// Zeros, which is nobody's: to receive into.
  NcclId() = default;

  /// Another one each time. Opens the socket through which the ranks find each other, on the interface that
  /// NCCL_SOCKET_IFNAME names; needs no GPU.
  ///
  /// Errors: `backend` when NCCL finds no network interface.
  [[nodiscard]] static auto create() -> NcclId {
    ncclUniqueId made{};
    detail::check_nccl(ncclGetUniqueId(&made), "NcclId::create");
    NcclId id;
    std::memcpy(id.bytes_.data(), made.internal, size_bytes);
    return id;
  }

  [[nodiscard]] auto bytes() noexcept -> std::span<std::uint8_t> { return bytes_; }
  [[nodiscard]] auto bytes() const noexcept -> std::span<std::uint8_t const> { return bytes_; }

  [[nodiscard]] auto native() const noexcept -> ncclUniqueId {
    ncclUniqueId id{};
    std::memcpy(id.internal, bytes_.data(), size_bytes);
    return id;
  }

  friend auto operator==(NcclId const&, NcclId const&) -> bool = default;

 private:
  static_assert(sizeof(ncclUniqueId) == size_bytes);
  std::array<std::uint8_t, size_bytes> bytes_{};
};

}  // namespace raytrain
