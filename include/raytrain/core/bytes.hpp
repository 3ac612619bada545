// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace raytrain {

/// Bytes that are owned.
using Bytes = std::vector<std::byte>;

/// Bytes that somebody else owns.
using BytesView = std::span<std::byte const>;

[[nodiscard]] auto bytes_of(std::string_view text) noexcept -> BytesView;

[[nodiscard]] auto text_of(BytesView bytes) noexcept -> std::string_view;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/bytes-inl.hpp>
#endif
