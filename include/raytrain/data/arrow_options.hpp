// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <raytrain/core/element_type.hpp>

namespace raytrain {

/// How Arrow files are read.
struct ArrowOptions {
  /// To be kept, in this order; empty: all, in the order of the file.
  std::vector<std::string> columns{};
  /// What numbers become, and booleans as 1 and 0, by the name of their column; others keep the type that they have in
  /// the file. Floats round what they cannot hold, and have NaN where a value is missing; whole numbers must hold each
  /// value.
  std::map<std::string, ElementType, std::less<>> types{};
  /// A file is refused where it, or a block of it, takes more than 512 MiB of Arrow's memory and more than so many
  /// times the file's size, as one does whose compressed rows are made to fill the memory.
  std::size_t max_unpack_ratio = 200;
};

}  // namespace raytrain
