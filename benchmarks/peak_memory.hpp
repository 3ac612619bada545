// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>

/// Most memory that this process ever had in use, in MiB.
inline auto peak_mib() -> double {
  std::ifstream status{"/proc/self/status"};
  for (std::string word; status >> word;) {
    if (double kilobytes = 0; word == "VmHWM:" && status >> kilobytes) return kilobytes / 1024;
  }
  throw std::runtime_error{"/proc/self/status has no VmHWM"};
}
