// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <span>

#include "session_properties.hpp"

extern "C" auto LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) -> int {
  if (size < 2) return 0;
  // The first byte is the size of the chunks, so that it is fuzzed, too.
  raytrain::testing::check_session(std::as_bytes(std::span{data + 1, size - 1}), std::size_t{1} + data[0]);
  return 0;
}
