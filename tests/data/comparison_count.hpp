// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// How often this program has called `memcmp`, as texts of one length do that are compared, be it in a library.
[[nodiscard]] auto comparison_count() noexcept -> std::size_t;
