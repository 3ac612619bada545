// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/standard_streams.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void open_standard_streams() noexcept {
  auto file = 0;
  do file = ::open("/dev/null", O_RDWR);  // the lowest number that is free
  while (file >= 0 && file <= STDERR_FILENO);
  if (file >= 0) ::close(file);
}

}  // namespace raytrain::detail
