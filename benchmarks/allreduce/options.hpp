// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// What the benchmark is told to do; the same on every rank.
struct Options {
  std::uint32_t workers = 2;
  std::string collective = "all_reduce";
  std::string type = "float32";
  std::string op = "sum";
  std::string memory = "allocated";
  std::size_t min_bytes = 8;
  std::size_t max_bytes = std::size_t{64} << 20U;
  std::size_t factor = 2;                  ///< From one size to the next.
  std::vector<std::size_t> sizes_bytes{};  ///< Instead of these three.
  int iterations = 0;                      ///< Of each size; 0: as many as fit into `seconds`.
  double seconds = 0.3;
  int warm_up = 5;
  int turns = 5;  ///< In which contenders share `seconds`, each.
  bool check = true;
  std::string json;  ///< File for the rows; empty: none.
  std::string plot;  ///< File for a drawing of bus bandwidth over size; empty: none.

  /// Every size to measure, in bytes.
  [[nodiscard]] auto all_sizes() const -> std::vector<std::size_t> {
    if (!sizes_bytes.empty()) return sizes_bytes;
    std::vector<std::size_t> sizes;
    for (auto bytes = min_bytes; bytes <= max_bytes; bytes *= factor) sizes.push_back(bytes);
    return sizes;
  }
};
