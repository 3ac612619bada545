// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// How often this program has called `operator new`.
[[nodiscard]] auto allocation_count() noexcept -> std::size_t;
