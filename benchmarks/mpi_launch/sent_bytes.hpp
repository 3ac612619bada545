// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// What this process has sent over connections between workers and their controller. Threads: any.
auto sent_bytes() -> std::uint64_t;
