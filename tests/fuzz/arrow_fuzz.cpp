// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <span>

#include "arrow_properties.hpp"
#include "bounded_memory.hpp"

// Arrow is the wheel's library, which no sanitizer watches but for its memory.
extern "C" auto LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) -> int {
  (void)raytrain::testing::check_arrow_file(std::as_bytes(std::span{data, size}));
  return 0;
}
