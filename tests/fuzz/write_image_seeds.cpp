// SPDX-License-Identifier: Apache-2.0
// Writes the seeds of the fuzz target that needs stb into the folder that is its first argument, in a folder of its
// own.
#include <filesystem>

#include "image_properties.hpp"
#include "write_files.hpp"

auto main(int argc, char** argv) -> int {
  if (argc != 2) return 2;
  raytrain::testing::write_files(std::filesystem::path{argv[1]} / "image", raytrain::testing::image_seeds());
  return 0;
}
