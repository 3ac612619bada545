// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// Bytes that this program has copied by `memcpy` and `memmove`, in libraries, too, in copies of 64 bytes or more;
/// always 0 beside a sanitizer, which has functions of its own for them.
[[nodiscard]] auto copied_bytes() noexcept -> std::size_t;

/// Where the last one of them went; null before the first, and beside a sanitizer.
[[nodiscard]] auto copied_to() noexcept -> void const*;
