// SPDX-License-Identifier: Apache-2.0
// map_batches with one thread and with two, and as many plain threads over the same rows, in turns:
//   map_batches ROWS TURNS
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <numbers>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <raytrain/data/dataset.hpp>
#include <raytrain/data/map_batches.hpp>

#include "turns.hpp"

namespace {

constexpr std::size_t side = 28;
constexpr std::size_t pixels = side * side;
constexpr std::size_t frequencies = 8;
constexpr std::size_t features = frequencies * frequencies;
using Waves = std::array<std::array<float, side>, frequencies>;

auto make_waves() -> Waves {
  Waves waves{};
  for (std::size_t k = 0; k < frequencies; ++k) {
    for (std::size_t i = 0; i < side; ++i) {
      auto const phase = std::numbers::pi * static_cast<double>(k * (2 * i + 1)) / static_cast<double>(2 * side);
      waves[k][i] = static_cast<float>(std::cos(phase));
    }
  }
  return waves;
}

/// The lowest frequencies of the discrete cosine transform of each image.
void transform(Waves const& waves, std::span<float const> images, float* to) {
  for (; !images.empty(); images = images.subspan(pixels), to += features) {
    std::array<float, features> sums{};
    for (std::size_t line = 0; line < side; ++line) {
      for (std::size_t across = 0; across < frequencies; ++across) {
        float sum = 0;
        for (std::size_t i = 0; i < side; ++i) sum += waves[across][i] * images[line * side + i];
        for (std::size_t down = 0; down < frequencies; ++down) {
          sums[down * frequencies + across] += waves[down][line] * sum;
        }
      }
    }
    std::ranges::copy(sums, to);
  }
}

auto map(Waves const& waves, raytrain::Dataset const& data, int threads) -> raytrain::Dataset {
  auto const of_batch = [&](raytrain::Dataset const& batch) {
    std::vector<float> values(batch.rows() * features);
    transform(waves, batch.column("image").as<float>(), values.data());
    return raytrain::Dataset::from_columns({{"x", std::move(values), {features}}});
  };
  return raytrain::map_batches(data, of_batch, {.batch_size = 512, .threads = threads});
}

/// The number of images divides by that of the threads.
auto map_by_hand(Waves const& waves, std::span<float const> images, std::size_t threads) -> std::vector<float> {
  auto const rows = images.size() / pixels;
  auto const part = rows / threads;
  std::vector<float> result(rows * features);
  std::vector<std::jthread> running;
  for (std::size_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      transform(waves, images.subspan(i * part * pixels, part * pixels), result.data() + i * part * features);
    });
  }
  running.clear();
  return result;
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 3) throw std::invalid_argument{"arguments: ROWS TURNS"};
  auto const rows = std::stoul(argv[1]) / 2 * 2;
  std::vector<float> values(rows * pixels);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(random_at(i));
  auto const data = raytrain::Dataset::from_columns({{"image", std::move(values), {side, side}}});
  auto const images = data.column("image").as<float>();
  auto const waves = make_waves();
  std::vector<float> wanted(rows * features);
  transform(waves, images, wanted.data());
  auto const check = [&](std::span<float const> result) {
    if (!std::ranges::equal(result, wanted)) throw std::runtime_error{"other values were made"};
  };
  std::map<std::string, std::vector<double>> times;
  for (int turn = 0; turn < std::stoi(argv[2]); ++turn) {
    for (auto const threads : {1, 2}) {
      raytrain::Dataset mapped;
      times[fmt::format("mapped_{}", threads)].push_back(time_ms(wall_ms, [&] { mapped = map(waves, data, threads); }));
      check(mapped.column("x").as<float>());
      std::vector<float> plain;
      times[fmt::format("plain_{}", threads)].push_back(
          time_ms(wall_ms, [&] { plain = map_by_hand(waves, images, static_cast<std::size_t>(threads)); }));
      check(plain);
    }
  }
  fmt::print("{{\"mapped_1_ms\": {}, \"mapped_2_ms\": {}, \"plain_1_ms\": {}, \"plain_2_ms\": {}}}\n",
             median(times["mapped_1"]), median(times["mapped_2"]), median(times["plain_1"]), median(times["plain_2"]));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "map_batches: %s\n", error.what());
  return 1;
}
