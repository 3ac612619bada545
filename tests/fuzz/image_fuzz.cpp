// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <span>

#include "image_properties.hpp"

// stb_image itself is the system's library, which no sanitizer watches: what is found is a crash, or what our checks
// let through. It is no wall against files that are made to attack it, as read_images says.
extern "C" auto LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) -> int {
  (void)raytrain::testing::check_image(std::as_bytes(std::span{data, size}));
  return 0;
}
