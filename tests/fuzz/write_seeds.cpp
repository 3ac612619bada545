// SPDX-License-Identifier: Apache-2.0
// Writes the seeds of each fuzz target into the folder that is its first argument, one folder a target.
#include <filesystem>

#include "data_properties.hpp"
#include "seeds.hpp"
#include "slice_properties.hpp"
#include "tensor_properties.hpp"
#include "write_files.hpp"

using namespace raytrain::testing;

auto main(int argc, char** argv) -> int {
  if (argc != 2) return 2;
  std::filesystem::path const root{argv[1]};
  write_files(root / "decode", payload_seeds());
  write_files(root / "frame_decoder", stream_seeds(), "\x05");  // in chunks of 6 bytes
  write_files(root / "handshake", session_seeds(), "\x05");
  write_files(root / "json", json_seeds());
  write_files(root / "json_lines", json_lines_seeds());
  write_files(root / "csv", csv_seeds());
  write_files(root / "idx", idx_seeds());
  write_files(root / "libsvm", libsvm_seeds());
  write_files(root / "npy", npy_seeds());
  write_files(root / "safetensors", tensor_seeds());
  write_files(root / "slice_name", slice_name_seeds());
  return 0;
}
