// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "measurement.hpp"
#include "options.hpp"

/// What ran, for the head of every report.
struct Setting {
  std::string model;  ///< The collective's class.
  std::uint32_t ranks = 0;
  std::string where;  ///< "threads of one process".
};

inline void print_head(Setting const& setting, Options const& options) {
  fmt::print("# {} of {}, {}: {} {}, {}\n", options.collective, options.type, options.op, setting.ranks, setting.where,
             setting.model);
  fmt::print("# times in us, of the slowest rank; bandwidths in GB/s of the median; wrong: elements on all ranks\n");
  fmt::print("# model: two barriers and a copy of the bytes that each rank must read and write, all ranks at once\n");
  fmt::print("{:>12} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>7}\n", "size (B)", "count", "min",
             "avg", "max", "p50", "p99", "algbw", "busbw", "model", "x model", "wrong");
}

inline void print_row(Row const& row, Options const& options) {
  fmt::print("{:>12} {:>12} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.3f} {:>9.3f} {:>9.2f} {:>8.2f} {:>7}\n",
             row.bytes, row.count, row.min_us, row.avg_us, row.max_us, row.p50_us, row.p99_us, row.algorithm_bandwidth,
             row.bus_bandwidth, row.model_us, row.p50_us / row.model_us,
             options.check ? std::to_string(row.wrong) : "n/a");
  std::fflush(stdout);
}

/// Errors: `std::runtime_error` when the file cannot be written.
inline void write_file(std::string const& path, std::string_view text) {
  std::ofstream file{path};
  file << text;
  file.close();
  if (!file) throw std::runtime_error{"writing " + path + ": failed; name a file in a folder that can be written"};
}

[[nodiscard]] inline auto to_json(std::vector<Row> const& rows, Setting const& setting, Options const& options)
    -> std::string {
  auto text = fmt::format(R"({{"collective": "{}", "type": "{}", "op": "{}", "model": "{}", "ranks": {}, "rows": [)",
                          options.collective, options.type, options.op, setting.model, setting.ranks);
  for (auto const& row : rows) {
    text += fmt::format(
        R"({}{{"bytes": {}, "count": {}, "min_us": {:.4f}, "avg_us": {:.4f}, "max_us": {:.4f}, "p50_us": {:.4f}, )"
        R"("p99_us": {:.4f}, "algorithm_bandwidth": {:.4f}, "bus_bandwidth": {:.4f}, "model_us": {:.4f}, "wrong": {}}})",
        &row == rows.data() ? "" : ", ", row.bytes, row.count, row.min_us, row.avg_us, row.max_us, row.p50_us,
        row.p99_us, row.algorithm_bandwidth, row.bus_bandwidth, row.model_us, row.wrong);
  }
  return text + "]}\n";
}
