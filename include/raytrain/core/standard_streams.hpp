// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace raytrain::detail {

/// Opens /dev/null in place of stdin, stdout or stderr if the program was started without it. Otherwise the next file
/// that is opened takes its number, and what the program prints goes into that file.
inline void open_standard_streams() noexcept {
  auto file = 0;
  do file = ::open("/dev/null", O_RDWR);  // the lowest number that is free
  while (file >= 0 && file <= STDERR_FILENO);
  if (file >= 0) ::close(file);
}

}  // namespace raytrain::detail
