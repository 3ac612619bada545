// SPDX-License-Identifier: Apache-2.0
// Writes the seeds of the fuzz targets that need Arrow into the folder that is its first argument, one folder a target.
#include <filesystem>

#include "arrow_properties.hpp"
#include "write_files.hpp"

auto main(int argc, char** argv) -> int {
  if (argc != 2) return 2;
  std::filesystem::path const root{argv[1]};
  raytrain::testing::write_files(root / "arrow", raytrain::testing::arrow_seeds());
  raytrain::testing::write_files(root / "parquet", raytrain::testing::parquet_seeds());
  return 0;
}
