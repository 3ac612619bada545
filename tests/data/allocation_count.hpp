// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// How often this program has called `operator new`.
[[nodiscard]] auto allocation_count() noexcept -> std::size_t;

/// Bytes that this program has from `operator new` now.
[[nodiscard]] auto allocated_bytes() noexcept -> std::size_t;

/// The most that it has had at one time since `forget_peak`.
[[nodiscard]] auto peak_allocated_bytes() noexcept -> std::size_t;
void forget_peak() noexcept;
