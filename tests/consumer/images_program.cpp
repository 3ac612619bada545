// SPDX-License-Identifier: Apache-2.0
// A user's program with stb: a folder of images becomes a dataset.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <raytrain/data/images.hpp>

auto main() -> int {
  for (auto const* const name : {"cat", "dog"}) {
    std::filesystem::create_directories(std::filesystem::path{"pets"} / name);
    std::ofstream{std::filesystem::path{"pets"} / name / "1.ppm", std::ios::binary} << "P6 1 1 255\n" << name;
  }
  auto const pets = raytrain::read_images("pets", {.height = 2, .width = 2});
  std::printf("%zu images of %zu values\n", pets.rows(), pets.column("image").row_values());
  return pets.rows() == 2 && pets.column("image").as<std::uint8_t>()[0] == 'c' ? 0 : 1;
}
