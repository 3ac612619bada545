// SPDX-License-Identifier: Apache-2.0
// Lets a fuzz target run short of memory where its input asks for a lot: Arrow asks for what a damaged file promises,
// and its reader is to refuse that, as it does on a machine that has less. Without this the fuzzer would take it for a
// finding.
#pragma once

// NOLINTNEXTLINE(*-reserved-identifier): the sanitizer looks for that name.
extern "C" inline auto __asan_default_options() -> char const* {
  return "allocator_may_return_null=1:max_allocation_size_mb=256";
}
