// SPDX-License-Identifier: Apache-2.0
// Writes the seeds of each fuzz target into the folder that is its first argument, one folder a target.
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data_properties.hpp"
#include "seeds.hpp"
#include "slice_properties.hpp"
#include "tensor_properties.hpp"

namespace {

void write(std::filesystem::path const& folder, std::vector<raytrain::Bytes> const& seeds,
           std::string_view prefix = {}) {
  std::filesystem::create_directories(folder);
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream file{folder / ("seed_" + std::to_string(i)), std::ios::binary};
    file.exceptions(std::ios::badbit | std::ios::failbit);
    file << prefix << raytrain::text_of(seeds[i]);
  }
}

}  // namespace

auto main(int argc, char** argv) -> int {
  if (argc != 2) return 2;
  std::filesystem::path const root{argv[1]};
  write(root / "decode", raytrain::testing::payload_seeds());
  write(root / "frame_decoder", raytrain::testing::stream_seeds(), "\x05");  // in chunks of 6 bytes
  write(root / "handshake", raytrain::testing::session_seeds(), "\x05");
  write(root / "json", raytrain::testing::json_seeds());
  write(root / "json_lines", raytrain::testing::json_lines_seeds());
  write(root / "csv", raytrain::testing::csv_seeds());
  write(root / "idx", raytrain::testing::idx_seeds());
  write(root / "libsvm", raytrain::testing::libsvm_seeds());
  write(root / "npy", raytrain::testing::npy_seeds());
  write(root / "safetensors", raytrain::testing::tensor_seeds());
  write(root / "slice_name", raytrain::testing::slice_name_seeds());
  return 0;
}
