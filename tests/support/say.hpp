// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iostream>
#include <sstream>

namespace raytrain::testing {

/// Prints one line at a time, since the workers of a test program share what they write to.
template <class... Parts>
void say(Parts const&... parts) {
  std::ostringstream line;
  (line << ... << parts);
  std::cout << line.str() + "\n" << std::flush;
}

}  // namespace raytrain::testing
