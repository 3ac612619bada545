// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <raytrain/core/element_type.hpp>

namespace raytrain::detail {

/// Turns the bytes of each value around.
void swap_bytes(std::span<std::byte> bytes, ElementType type) noexcept;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/swapped_bytes-inl.hpp>
#endif
