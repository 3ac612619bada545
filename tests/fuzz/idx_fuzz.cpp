// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <span>

#include "data_properties.hpp"

extern "C" auto LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) -> int {
  (void)raytrain::testing::check_idx(std::as_bytes(std::span{data, size}));
  return 0;
}
