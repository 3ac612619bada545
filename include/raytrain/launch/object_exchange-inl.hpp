// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/object_exchange.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto as_elements(Bytes& bytes) noexcept -> std::span<std::uint8_t> {
  return {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace raytrain::detail
